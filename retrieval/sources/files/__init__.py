"""Files: documents with sections from Markdown, HTML, PDF, office files, mail and code.

A worker process with bounded memory and time reads every file.
Files import only what is above them: limits, outline, decoding, compressed, kinds, front_matter,
plain_text, html_pages, markdown, restructured, source_code, notebooks, mail, archives, office,
epub, pdf, readers, worker, worker_process, mailboxes, ignore_rules, ignored, walking, file_source.
"""
