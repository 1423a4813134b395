package admin

import (
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/mqferry/mqferry/router"
)

// handler serves the pages of one router.
type handler struct {
	router *router.Router
	pages  map[string]http.HandlerFunc
}

// New gives the pages of r. It may be mounted below any prefix that ends with a slash, for example http.Handle("/ferry/", admin.New(r)). It is safe
// for concurrent use, and may be asked before r runs and after r has stopped.
func New(r *router.Router) http.Handler {
	h := &handler{router: r}
	h.pages = map[string]http.HandlerFunc{
		"":        h.index,
		"healthz": h.healthz,
		"readyz":  h.readyz,
		"metrics": newMetrics(r).ServeHTTP,
	}
	return h
}

// ServeHTTP goes by the last part of the path, so that no prefix has to be cut off.
func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	_, name := path.Split(req.URL.Path)
	page, found := h.pages[name]
	switch {
	case !found:
		http.NotFound(w, req)
	case req.Method != http.MethodGet && req.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD are served here", http.StatusMethodNotAllowed)
	default:
		page(w, req)
	}
}

func (h *handler) healthz(w http.ResponseWriter, _ *http.Request) {
	text(w, http.StatusOK, "alive\n")
}

func (h *handler) readyz(w http.ResponseWriter, _ *http.Request) {
	all := h.router.Status()
	var troubled strings.Builder
	for _, s := range all {
		if trouble := s.Trouble(); trouble != "" {
			fmt.Fprintf(&troubled, "%s: %s\n", s.Route, oneLine(trouble))
		}
	}
	if troubled.Len() > 0 {
		text(w, http.StatusServiceUnavailable, troubled.String())
		return
	}
	text(w, http.StatusOK, fmt.Sprintf("ready, routes: %d\n", len(all)))
}

func (h *handler) index(w http.ResponseWriter, _ *http.Request) {
	var page strings.Builder
	for _, s := range h.router.Status() {
		state := "ready"
		if trouble := s.Trouble(); trouble != "" {
			state = oneLine(trouble)
		}
		fmt.Fprintf(&page, "%s: %s -> %s\n  fetched %d, confirmed %d, committed %d, in flight %d\n  %s\n\n", s.Route, s.From, s.To,
			s.Meter.Fetched.Load(), s.Meter.Confirmed.Load(), s.Meter.Committed.Load(), s.InFlight(), state)
	}
	page.WriteString("More is at healthz, readyz and metrics, beside this page.\n")
	text(w, http.StatusOK, page.String())
}

func text(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	// Who has hung up does not read an error either.
	_, _ = w.Write([]byte(body))
}

// oneLine keeps the promise of a line for each route whatever an error says.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
