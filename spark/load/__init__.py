"""Offline loads: topics into a folder of Parquet files, each record once, with the positions beside the files."""
