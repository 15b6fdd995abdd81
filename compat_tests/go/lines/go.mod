module headgate.test/lines

go 1.26.0
