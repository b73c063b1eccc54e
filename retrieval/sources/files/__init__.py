"""Files: Markdown, pages, PDF, office files, mail and code become Documents that know their parts.

Every file is read by a worker process, whose memory and time are bounded.
Files import only what is above them: limits, outline, decoding, compressed, kinds, front_matter,
plain_text, html_pages, markdown, restructured, source_code, notebooks, mail, archives, office,
epub, pdf, readers, worker, worker_process, mailboxes, ignore_rules, ignored, walking, file_source.
"""
