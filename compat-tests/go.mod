module weir/compat-tests

go 1.26.0
