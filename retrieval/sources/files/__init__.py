"""Files: documents with sections from Markdown, HTML, PDF, office files, mail and code.

A worker process with bounded memory and time reads every file.
Files and folders import only what is above them: limits, outline, decoding, compressed, kinds,
front_matter, archives, formats, worker, worker_process, mailboxes, folders, file_source.
"""
