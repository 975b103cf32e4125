"""Every strategy of a study: what it is called, how it is built, how it walks through the dates."""
