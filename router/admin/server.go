package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/mqferry/mqferry/config"
)

// How long a client may take.
const (
	headerTimeout = 5 * time.Second
	answerTimeout = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	// lastAnswers is how long a stop waits for the answers that are being given.
	lastAnswers = 2 * time.Second
)

// Server serves pages on a listener, from Serve until Stop.
type Server struct {
	http   *http.Server
	served chan struct{}
}

// Listen opens the listener that a configuration asks for, with TLS where it says so.
func Listen(c config.Admin) (net.Listener, error) {
	var settings *tls.Config
	if c.TLS != nil {
		var err error
		if settings, err = c.TLS.Server(); err != nil {
			return nil, fmt.Errorf("admin.tls: %w", err)
		}
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return nil, fmt.Errorf("admin.listen: %w; free that address, or choose another", err)
	}
	if settings != nil {
		listener = tls.NewListener(listener, settings)
	}
	return listener, nil
}

// URL is where a listener of Listen is reached.
func URL(c config.Admin, l net.Listener) string {
	if c.TLS != nil {
		return "https://" + l.Addr().String() + "/"
	}
	return "http://" + l.Addr().String() + "/"
}

// Serve begins to serve pages on listener, which it closes in the end, and returns at once. A client that is slow to ask is hung up on. A nil
// logger is silent.
func Serve(listener net.Listener, pages http.Handler, logger *slog.Logger) *Server {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{served: make(chan struct{})}
	s.http = &http.Server{
		Handler: pages, ReadHeaderTimeout: headerTimeout, WriteTimeout: answerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.served)
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("health and metrics are no longer served", "error", err)
		}
	}()
	return s
}

// Stop takes no more requests, and gives those that are being answered two seconds. It may be called twice.
func (s *Server) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
	<-s.served
}
