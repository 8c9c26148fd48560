// The fake Spanner of Google's Go client, as a server of its own: makes the tables of the statements on its input,
// says where it listens, and serves until its parent is gone.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/spanner/spannertest"
	"cloud.google.com/go/spanner/spansql"
)

func main() {
	statements, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	ddl, err := spansql.ParseDDL("input", string(statements))
	if err != nil {
		log.Fatal(err)
	}
	server, err := spannertest.NewServer("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if err := server.UpdateDDL(ddl); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("export SPANNER_EMULATOR_HOST=%s\n", server.Addr)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt, syscall.SIGTERM)
	<-ended
}
