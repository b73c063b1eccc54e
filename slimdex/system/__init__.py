"""System: files, locks, processes, progress and texts. Knows neither numbers nor documents."""
