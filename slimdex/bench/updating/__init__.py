"""Several processes that change one store while another one searches it."""
