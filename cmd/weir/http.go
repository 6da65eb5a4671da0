package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"weir/broker"
	"weir/internal/metrics"
)

// httpServer serves metrics, health and profiles beside a broker (weir.http.listeners). It is there before the broker, so
// that a probe of its life is answered while a long recovery goes on, and after it, so that a stop can be watched.
type httpServer struct {
	sockets []net.Listener
	server  *http.Server
	serving sync.WaitGroup
	broker  atomic.Pointer[broker.Broker] // nil until it is open
}

const (
	httpReadTimeout  = 10 * time.Second
	httpIdleTimeout  = 2 * time.Minute
	httpWriteTimeout = 2 * time.Minute // profiles take what they are asked for, besides
	httpStopTimeout  = time.Second     // for a scrape that is under way
	httpHeaderBytes  = 16 << 10

	httpMaxConnections = 64 // of all addresses together; more wait
)

// listenHTTP binds the addresses and begins to serve them; with none it does nothing. The error names the address, and
// what the user may do about a port in use.
//
// There are at most maxConnections at a time.
func listenHTTP(addresses []string, maxConnections int, registry *metrics.Registry, logger *slog.Logger) (*httpServer, error) {
	s := &httpServer{}
	if len(addresses) == 0 {
		return s, nil
	}
	for _, address := range addresses {
		socket, err := net.Listen("tcp", address)
		if err != nil {
			s.close()
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, fmt.Errorf("%s: the port is in use; choose another with --http", address)
			}
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		s.sockets = append(s.sockets, socket)
	}
	s.server = &http.Server{
		Handler: s.handler(registry, logger), ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		ReadTimeout: httpReadTimeout, WriteTimeout: httpWriteTimeout, IdleTimeout: httpIdleTimeout, MaxHeaderBytes: httpHeaderBytes,
	}
	slots := make(chan struct{}, maxConnections)
	for _, socket := range s.sockets {
		s.serving.Go(func() {
			if err := s.server.Serve(newSlotListener(socket, slots)); !errors.Is(err, http.ErrServerClosed) {
				logger.Error("metrics and health are not served any more", "address", socket.Addr().String(), "error", err)
			}
		})
	}
	return s, nil
}

// bound returns the addresses that are bound, in the order in which they were asked for.
func (s *httpServer) bound() (addresses []string) {
	for _, socket := range s.sockets {
		addresses = append(addresses, socket.Addr().String())
	}
	return addresses
}

// opened says that clients are served from now on, until b begins to stop.
func (s *httpServer) opened(b *broker.Broker) { s.broker.Store(b) }

// close stops serving. What is being answered may end, if that does not take long.
func (s *httpServer) close() {
	if s.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), httpStopTimeout)
		defer cancel()
		if s.server.Shutdown(ctx) != nil {
			_ = s.server.Close()
		}
		s.serving.Wait()
	}
	for _, socket := range s.sockets { // those that the server had not come to serve, or nobody was going to
		_ = socket.Close()
	}
}

func (s *httpServer) handler(registry *metrics.Registry, logger *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metricsHandler(registry, s.stats, logger))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	// Without pprof.Cmdline: an argument may be a password.
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	return mux
}

// readyz is for whoever sends clients here.
func (s *httpServer) readyz(w http.ResponseWriter, _ *http.Request) {
	switch b := s.broker.Load(); {
	case b == nil:
		http.Error(w, "starting", http.StatusServiceUnavailable)
	case !b.Ready():
		http.Error(w, "stopping", http.StatusServiceUnavailable)
	default:
		_, _ = io.WriteString(w, "ready\n")
	}
}

// stats is nil until the broker is open.
func (s *httpServer) stats() *broker.Stats {
	if b := s.broker.Load(); b != nil {
		return b.Stats()
	}
	return nil
}
