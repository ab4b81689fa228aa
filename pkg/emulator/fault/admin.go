package fault

import (
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/pkg/errors"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

// AdminPath is what the paths of the admin route begin with. No cloud has paths like it.
const AdminPath = "/_emulator/"

// maxPlan is the most that a plan sent to the admin route can be, in bytes.
const maxPlan = 1 << 20

// Status is what GET /_emulator/faults answers.
type Status struct {
	// Plan is what is in force, in the form that PUT takes.
	Plan Plan `json:"plan"`
	// Strikes are those of the plan so far, oldest first.
	Strikes []Strike `json:"strikes"`
}

// Handler serves the cloud and, beside it, the admin route:
//
//	GET    /_emulator/faults    the plan in force and its strikes, a [Status]
//	PUT    /_emulator/faults    puts the plan in the body, YAML or JSON, in force, as Set does
//	DELETE /_emulator/faults    lifts the plan, as Lift does
//	GET    /_emulator/requests  the list of [emulator.Request], without secrets; ?method= and ?path= choose by
//	                            [emulator.Request.Matches]
//
// It asks for no token, so it belongs on a loopback address, where [emulator.Listen] puts it; requests for other hosts, which a web
// page can have a browser send, are refused. Requests of the admin route are not among the cloud's.
func (i *Injector) Handler() http.Handler {
	admin := http.NewServeMux()
	admin.HandleFunc("GET "+AdminPath+"faults", func(w http.ResponseWriter, _ *http.Request) { i.writeStatus(w) })
	admin.HandleFunc("PUT "+AdminPath+"faults", i.put)
	admin.HandleFunc("DELETE "+AdminPath+"faults", func(w http.ResponseWriter, _ *http.Request) {
		if err := i.Lift(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	admin.HandleFunc("GET "+AdminPath+"requests", i.requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasPrefix(r.URL.Path, AdminPath):
			i.cloud.ServeHTTP(w, r)
		case !isLoopback(r.Host):
			http.Error(w, "the admin route is for clients on this machine", http.StatusForbidden)
		default:
			admin.ServeHTTP(w, r)
		}
	})
}

func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (i *Injector) put(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPlan))
	if err != nil {
		http.Error(w, errors.Wrap(err, "read the plan").Error(), http.StatusBadRequest)
		return
	}
	plan, err := Parse("plan", text)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := i.Set(plan); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	i.writeStatus(w)
}

func (i *Injector) writeStatus(w http.ResponseWriter) {
	status := Status{Plan: i.Plan(), Strikes: i.Strikes()}
	if status.Strikes == nil {
		status.Strikes = []Strike{}
	}
	emulator.WriteJSON(w, http.StatusOK, status)
}

func (i *Injector) requests(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	method, pattern := query.Get("method"), query.Get("path")
	if pattern == "" {
		pattern = "/**"
	}
	matching := []emulator.Request{}
	for _, request := range i.cloud.Requests() {
		if request.Matches(method, pattern) {
			matching = append(matching, request)
		}
	}
	emulator.WriteJSON(w, http.StatusOK, matching)
}
