package service

import (
	"context"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodepoolsv1 "github.com/plantonhq/project-planton/apis/org/project_planton/nodepools/v1"
	"github.com/plantonhq/project-planton/pkg/nodepools/status"
)

// ConditionPreview is the type of the condition that the answer to a dry run carries: what the provider would do, in words. Its status
// is True when the provider was asked, Unknown when it could not be. It is never kept.
const ConditionPreview = "Preview"

// Previewer says what a provider would do to make an object what it is to be.
type Previewer interface {
	// Preview looks at a cluster, or at a node pool in it (nil: at the cluster itself). Text and error are shown to the client. An
	// empty text says that there is nothing to tell.
	Preview(ctx context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) (string, error)
}

// maxPreview is the longest text of a preview, in bytes.
const maxPreview = 64 << 10

// preview adds to the answer of a dry run what the provider says. It runs outside of the transaction, which is over by then.
func (s *Service) preview(ctx context.Context, cluster *nodepoolsv1.Cluster, pool *nodepoolsv1.NodePool) {
	platform, current := cluster.GetSpec().GetPlatform().GetType(), cluster.GetStatus()
	if pool != nil {
		current = pool.GetStatus()
	}
	if s.options.Previewer == nil || s.options.Provisioned[platform] == "" {
		return
	}
	condition := &nodepoolsv1.Condition{Type: ConditionPreview, Status: status.True, Reason: "ProviderPreview", LastTransitionTime: timestamppb.New(s.now())}
	text, err := s.options.Previewer.Preview(ctx, proto.CloneOf(cluster), proto.CloneOf(pool))
	if err != nil {
		condition.Status, condition.Reason, text = status.UnknownStatus, "PreviewFailed", err.Error()
	}
	if text == "" {
		return
	}
	if len(text) > maxPreview {
		text = strings.ToValidUTF8(text[:maxPreview], "") // a character may be cut in two
	}
	condition.Message = text
	current.Conditions = append(current.Conditions, condition)
}
