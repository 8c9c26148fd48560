package spindleagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Error is a refusal of the agent's. Its Code is one of those of docs/agent.yaml.
type Error struct {
	Status int    `json:"-"`
	Code   string `json:"code"`
	Text   string `json:"error"`
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s: %s", e.Status, e.Code, e.Text) }

// isFinal says whether no repetition cures it.
func (e *Error) isFinal() bool {
	return e.Status == 400 || e.Status == 404 || e.Status == 405 || e.Status == 415 || e.Status == 421
}

// addressError is of an address at which no agent can be.
type addressError string

func (e addressError) Error() string {
	return fmt.Sprintf("address %s: expected HOST:PORT, or the path of a socket", string(e))
}

var hostPort = regexp.MustCompile(`^(\[[^][\s/]+]|[^][\s/:@?#]+):(\d{1,5})$`)

// isHostPort wants the port: without one it would be 80, where another server may answer.
func isHostPort(address string) bool {
	parts := hostPort.FindStringSubmatch(address)
	if parts == nil {
		return false
	}
	port, err := strconv.ParseUint(parts[2], 10, 16)
	return err == nil && port > 0
}

// isFinal says whether no repetition cures it.
func isFinal(err error) bool {
	var address addressError
	var refusal *Error
	return errors.As(err, &address) || errors.As(err, &refusal) && refusal.isFinal()
}

// Agent is the one at Address: HOST:PORT, or the path of a socket. What is empty is said by the environment.
type Agent struct {
	Address   string
	Token     string
	TokenFile string // read anew for each request
}

// UntilSignal returns a context that ends when the process is told to end, by SIGTERM or Ctrl-C. A second signal ends it at
// once.
func UntilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx
}

func or(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

func (a *Agent) token() (string, error) {
	file := or(a.TokenFile, os.Getenv("SPINDLE_AGENT_TOKEN_FILE"))
	if a.Token != "" || file == "" {
		return or(a.Token, os.Getenv("SPINDLE_AGENT_TOKEN")), nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}

// open sends a request, and returns its answer unless it is a refusal.
func (a *Agent) open(ctx context.Context, method, path string, body any) (io.ReadCloser, error) {
	address := or(a.Address, os.Getenv("SPINDLE_AGENT"), "127.0.0.1:9465")
	transport := &http.Transport{DisableKeepAlives: true}
	host := address
	if strings.HasPrefix(address, "/") {
		host = "localhost"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}
	} else if !isHostPort(address) {
		return nil, addressError(address)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+host+path, bytes.NewReader(text))
	if err != nil {
		return nil, addressError(address)
	}
	token, err := a.token()
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	said, _ := io.ReadAll(answer.Body)
	refusal := &Error{}
	if json.Unmarshal(said, refusal) != nil {
		refusal.Text = string(said)
	}
	refusal.Status = answer.StatusCode
	return nil, refusal
}

func (a *Agent) ask(ctx context.Context, method, path string, body, told any) error {
	answer, err := a.open(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	return json.NewDecoder(answer).Decode(told)
}
