package server

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/service"
)

func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

func (s *Server) newGRPC() {
	s.grpc = grpc.NewServer(grpc.MaxRecvMsgSize(int(s.options.MaxBody)))
	nodepoolsv1.RegisterNodePoolServiceServer(s.grpc, s.options.Service)
	nodepoolsv1.RegisterClusterServiceServer(s.grpc, s.options.Service)
	nodepoolsv1.RegisterControllerServiceServer(s.grpc, s.options.Service)
	nodepoolsv1.RegisterEventServiceServer(s.grpc, s.options.Service)
	reflection.Register(s.grpc)
}

// serveGRPC guards gRPC. Metadata comes as headers and the handlers' context is that of the request, so the same guard serves both.
func (s *Server) serveGRPC(w http.ResponseWriter, r *http.Request) {
	r, err := s.identify(r)
	if err != nil {
		refuseGRPC(w, problemOf(err))
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if strings.HasSuffix(r.URL.Path, "/WatchEvents") {
		s.metrics.watches.Inc()
		defer s.metrics.watches.Dec()
		go func() {
			select {
			case <-s.ended:
				cancel()
			case <-ctx.Done():
			}
		}()
	} else {
		ctx, cancel = context.WithTimeout(ctx, s.options.RequestTimeout)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.options.RequestTimeout + 10*time.Second))
	}
	s.grpc.ServeHTTP(w, r.WithContext(ctx))
}

// refuseGRPC answers a call that does not reach gRPC's own server.
func refuseGRPC(w http.ResponseWriter, refused *problem) {
	code := codes.Internal
	switch refused.Code {
	case service.ReasonUnauthenticated:
		code = codes.Unauthenticated
	case service.ReasonValidation:
		code = codes.InvalidArgument
	case service.ReasonUnavailable:
		code = codes.Unavailable
	case CodeRateLimited:
		code = codes.ResourceExhausted
	}
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", strconv.Itoa(int(code)))
	w.Header().Set("Grpc-Message", url.PathEscape(refused.Message+": "+refused.Details))
	w.WriteHeader(http.StatusOK)
}
