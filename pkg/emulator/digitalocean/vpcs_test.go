package digitalocean

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/digitalocean/godo"

	"github.com/plantonhq/project-planton/pkg/emulator"
)

func TestVPCLife(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)

	vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{
		Name: "env.prod-vpc", RegionSlug: "FRA1", Description: "production", IPRange: "10.20.0.0/16",
	}))
	if vpc.ID == "" || vpc.URN != "do:vpc:"+vpc.ID || vpc.RegionSlug != "fra1" || vpc.IPRange != "10.20.0.0/16" ||
		vpc.Description != "production" || vpc.Default || !vpc.CreatedAt.Equal(f.time.Now()) {
		t.Errorf("created %+v", vpc)
	}
	got := must[*godo.VPC](t)(f.client.VPCs.Get(ctx, vpc.ID))
	if *got != *vpc {
		t.Errorf("read %+v, want %+v", got, vpc)
	}

	updated := must[*godo.VPC](t)(f.client.VPCs.Update(ctx, vpc.ID, &godo.VPCUpdateRequest{Name: "renamed", Default: godo.PtrTo(false)}))
	if updated.Name != "renamed" || updated.Description != "production" {
		t.Errorf("updated to %+v, want the description kept that was left out", updated)
	}
	emptied := must[*godo.VPC](t)(f.client.VPCs.Set(ctx, vpc.ID, godo.VPCSetDescription("")))
	if emptied.Name != "renamed" || emptied.Description != "" {
		t.Errorf("set to %+v, want the name kept and the description emptied", emptied)
	}

	old := defaultOf(t, f, "fra1")
	made := must[*godo.VPC](t)(f.client.VPCs.Set(ctx, vpc.ID, godo.VPCSetDefault()))
	if !made.Default || defaultOf(t, f, "fra1").ID != vpc.ID {
		t.Errorf("%+v is not fra1's only default", made)
	}
	_, err := f.client.VPCs.Delete(ctx, vpc.ID)
	wantError(t, err, 403, "forbidden")
	must[*godo.VPC](t)(f.client.VPCs.Set(ctx, old.ID, godo.VPCSetDefault()))

	mustDo(t)(f.client.VPCs.Delete(ctx, vpc.ID))
	_, _, err = f.client.VPCs.Get(ctx, vpc.ID)
	wantError(t, err, 404, "not_found")
	_, err = f.client.VPCs.Delete(ctx, vpc.ID)
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.VPCs.Update(ctx, vpc.ID, &godo.VPCUpdateRequest{Name: "x"})
	wantError(t, err, 404, "not_found")
	_, _, err = f.client.VPCs.ListMembers(ctx, vpc.ID, nil, nil)
	wantError(t, err, 404, "not_found")
}

// defaultOf checks that a region has one default VPC, and returns it.
func defaultOf(t *testing.T, f *fixture, region string) VPC {
	t.Helper()
	var defaults []VPC
	for _, vpc := range f.VPCs() {
		if vpc.Region == region && vpc.Default {
			defaults = append(defaults, vpc)
		}
	}
	if len(defaults) != 1 {
		t.Fatalf("%s has %d default VPCs", region, len(defaults))
	}
	return defaults[0]
}

func TestEachRegionHasADefaultVPC(t *testing.T) {
	t.Parallel()
	f := start(t)
	for _, r := range regions {
		vpc := defaultOf(t, f, r.Slug)
		_, err := f.client.VPCs.Delete(context.Background(), vpc.ID)
		wantError(t, err, 403, "forbidden")
	}
}

func TestVPCsWithoutARangeGetOneEach(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "in-the-way", RegionSlug: "nyc3", IPRange: "10.100.0.0/18"}))
	seen := map[string]bool{}
	for _, name := range []string{"a", "b", "c"} {
		vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: name, RegionSlug: "nyc3"}))
		if !strings.HasSuffix(vpc.IPRange, "/20") || seen[vpc.IPRange] {
			t.Errorf("%s got %s", name, vpc.IPRange)
		}
		seen[vpc.IPRange] = true
	}
	if !seen["10.100.64.0/20"] {
		t.Errorf("ranges %v do not begin after the one in the way", seen)
	}
}

func TestVPCRefusals(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	taken := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "taken", RegionSlug: "nyc3", IPRange: "10.20.0.0/16"}))
	for _, tc := range []struct {
		reason  string
		request godo.VPCCreateRequest
	}{
		{"a name is needed", godo.VPCCreateRequest{RegionSlug: "nyc3"}},
		{"a name has no underscore", godo.VPCCreateRequest{Name: "a_b", RegionSlug: "nyc3"}},
		{"names are unique in the account", godo.VPCCreateRequest{Name: "taken", RegionSlug: "fra1"}},
		{"a region is needed", godo.VPCCreateRequest{Name: "a"}},
		{"the region must exist", godo.VPCCreateRequest{Name: "a", RegionSlug: "mars1"}},
		{"a range is in CIDR notation", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "10.30.0.0"}},
		{"a range has no host bits", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "10.30.0.1/16"}},
		{"a range is private", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "8.8.0.0/16"}},
		{"a range is IPv4", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "fd00::/16"}},
		{"a range is no larger than /16", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "10.0.0.0/8"}},
		{"a range is no smaller than /28", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "10.30.0.0/29"}},
		{"ranges don't overlap, whatever the region", godo.VPCCreateRequest{Name: "a", RegionSlug: "fra1", IPRange: "10.20.128.0/20"}},
		{"ranges don't contain each other", godo.VPCCreateRequest{Name: "a", RegionSlug: "fra1", IPRange: "10.136.0.0/16"}},
		{"some ranges are reserved", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", IPRange: "10.244.0.0/20"}},
		{"a description has 255 characters at most", godo.VPCCreateRequest{Name: "a", RegionSlug: "nyc3", Description: strings.Repeat("é", 256)}},
	} {
		_, _, err := f.client.VPCs.Create(ctx, &tc.request)
		t.Log(tc.reason, err)
		wantError(t, err, 422, "unprocessable_entity")
	}
	if n := len(f.VPCs()); n != len(regions)+1 {
		t.Errorf("there are %d VPCs after refusals", n)
	}

	other := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "other", RegionSlug: "nyc3", Description: strings.Repeat("é", 255)}))
	_, _, err := f.client.VPCs.Update(ctx, other.ID, &godo.VPCUpdateRequest{Name: "taken"})
	wantError(t, err, 422, "unprocessable_entity")
	_, _, err = f.client.VPCs.Update(ctx, other.ID, &godo.VPCUpdateRequest{Description: "a PUT without a name"})
	wantError(t, err, 422, "unprocessable_entity")
	must[*godo.VPC](t)(f.client.VPCs.Update(ctx, taken.ID, &godo.VPCUpdateRequest{Name: "taken", Description: "keeps its own name"}))
}

func TestVPCKeepsADeletedClusterForAWhile(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startSlow(t)
	vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1"}))
	request := simpleCluster("in-net")
	request.VPCUUID = vpc.ID
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))

	members := must[[]*godo.VPCMember](t)(f.client.VPCs.ListMembers(ctx, vpc.ID, nil, nil))
	if len(members) != 1 || members[0].URN != cluster.URN() || members[0].Name != "in-net" {
		t.Errorf("members = %+v", members)
	}
	_, err := f.client.VPCs.Delete(ctx, vpc.ID)
	wantError(t, err, 409, "conflict")
	if !strings.Contains(err.Error(), "Can not delete VPC with members") {
		t.Errorf("error = %v", err)
	}

	mustDo(t)(f.client.Kubernetes.Delete(ctx, cluster.ID))
	_, _, err = f.client.Kubernetes.Get(ctx, cluster.ID)
	wantError(t, err, 404, "not_found")

	f.time.advance(vpcMembership - time.Second)
	_, err = f.client.VPCs.Delete(ctx, vpc.ID)
	wantError(t, err, 409, "conflict")
	f.time.advance(time.Second)
	if members := must[[]*godo.VPCMember](t)(f.client.VPCs.ListMembers(ctx, vpc.ID, nil, nil)); len(members) != 0 {
		t.Errorf("members = %+v, want none any more", members)
	}
	mustDo(t)(f.client.VPCs.Delete(ctx, vpc.ID))
}

func TestVPCGracePeriodCanBeSet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := startWith(t, emulator.Options{Token: testToken, TimeScale: 0})
	f.SetVPCGracePeriod(time.Minute)
	vpc := must[*godo.VPC](t)(f.client.VPCs.Create(ctx, &godo.VPCCreateRequest{Name: "net", RegionSlug: "fra1"}))
	request := simpleCluster("in-net")
	request.VPCUUID = vpc.ID
	cluster := must[*godo.KubernetesCluster](t)(f.client.Kubernetes.Create(ctx, request))
	mustDo(t)(f.client.Kubernetes.Delete(ctx, cluster.ID))
	_, err := f.client.VPCs.Delete(ctx, vpc.ID)
	wantError(t, err, 409, "conflict")
	f.time.advance(time.Minute)
	if err := f.DeleteVPC(vpc.ID); err != nil {
		t.Error(err)
	}
}

// wantPage checks where a link leads.
func wantPage(t *testing.T, link string, page int) {
	t.Helper()
	target, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	if got := target.Query().Get("page"); !target.IsAbs() || target.Path != "/v2/vpcs" || got != strconv.Itoa(page) || target.Query().Get("per_page") == "" {
		t.Errorf("link = %s, want page %d", link, page)
	}
}

func TestPagination(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := start(t)
	want := len(f.VPCs())
	for _, perPage := range []int{0, 1, 3, 7, want, 200, 1000} {
		seen := map[string]bool{}
		options := &godo.ListOptions{PerPage: perPage}
		for pages := 0; ; pages++ {
			if pages > want {
				t.Fatalf("per_page %d never ends", perPage)
			}
			vpcs, response, err := f.client.VPCs.List(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			if response.Meta == nil || response.Meta.Total != want {
				t.Fatalf("meta = %+v, want the total %d", response.Meta, want)
			}
			if perPage > 0 && len(vpcs) > perPage || len(vpcs) == 0 {
				t.Fatalf("%d on a page of %d", len(vpcs), perPage)
			}
			for _, vpc := range vpcs {
				if seen[vpc.ID] {
					t.Errorf("%s is listed twice", vpc.Name)
				}
				seen[vpc.ID] = true
			}
			if response.Links == nil || response.Links.IsLastPage() {
				break
			}
			page, err := response.Links.CurrentPage()
			if err != nil {
				t.Fatal(err)
			}
			options.Page = page + 1
			wantPage(t, response.Links.Pages.Next, page+1)
			wantPage(t, response.Links.Pages.Last, (want+max(perPage, 1)-1)/max(perPage, 1))
			if page > 1 {
				wantPage(t, response.Links.Pages.Prev, page-1)
				wantPage(t, response.Links.Pages.First, 1)
			}
		}
		if len(seen) != want {
			t.Errorf("per_page %d shows %d of %d", perPage, len(seen), want)
		}
	}
	beyond, response, err := f.client.VPCs.List(ctx, &godo.ListOptions{Page: 1_000_000_000, PerPage: 200})
	if err != nil || len(beyond) != 0 || response.Links.Pages.Next != "" {
		t.Errorf("a page beyond the last: %v, %v, %v", beyond, response.Links, err)
	}
}
