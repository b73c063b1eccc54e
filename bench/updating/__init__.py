"""Several processes that change one store while another one searches it.

Files import only what is above them: changed_stores, update_study.
"""
