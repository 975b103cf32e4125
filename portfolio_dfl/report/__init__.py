"""The page of a study: figures, tables and pictures, from frames to self-contained HTML."""
