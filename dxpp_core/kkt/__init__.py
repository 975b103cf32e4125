"""The KKT system on the active rows: which they are, its solution to machine precision, where it has a derivative."""
