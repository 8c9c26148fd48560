module github.com/spindle-lock/spindle/clients/go

go 1.24
