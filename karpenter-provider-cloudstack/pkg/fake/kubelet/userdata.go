package kubelet

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pkg/errors"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Registration is what a kubelet is told by the user data of its machine.
type Registration struct {
	// Labels and Taints are those that the node registers with.
	Labels map[string]string
	Taints []corev1.Taint
	// ProviderID is the provider id, with the id of the machine not put in yet: see providerID. Empty where it is left to others.
	ProviderID string
	// MaxPods is how many pods it runs, 0 where nothing is said.
	MaxPods int64
	// KubeReserved and SystemReserved are kept from pods.
	KubeReserved, SystemReserved corev1.ResourceList
	// EvictionHard are the thresholds of eviction, such as memory.available: 100Mi.
	EvictionHard map[string]string
}

// maxUnpacked bounds what user data unpacks to.
const maxUnpacked = 8 << 20

// ParseUserData finds in the user data of a machine what its kubelet is told: flags of the kubelet anywhere in a script, arguments of
// kubeadm, the files of K3s and RKE2, and a KubeletConfiguration, which flags take the place of; also within parts, packed or encoded. The
// user data is base64, as CloudStack takes it.
func ParseUserData(userData string) (Registration, error) {
	found := Registration{Labels: map[string]string{}, EvictionHard: map[string]string{}}
	if userData == "" {
		return found, nil
	}
	data, err := base64.StdEncoding.DecodeString(userData)
	if err != nil {
		return found, errors.New("user data is no base64")
	}
	texts, err := documents(data)
	if err != nil {
		return found, err
	}
	for _, text := range texts {
		if err := found.scan(text); err != nil {
			return found, err
		}
	}
	for _, text := range texts {
		if err := found.configure(text); err != nil {
			return found, err
		}
	}
	return found, nil
}

// configuration is what a KubeletConfiguration says. https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
type configuration struct {
	MaxPods        int64             `json:"maxPods"`
	ProviderID     string            `json:"providerID"`
	KubeReserved   map[string]string `json:"kubeReserved"`
	SystemReserved map[string]string `json:"systemReserved"`
	EvictionHard   map[string]string `json:"evictionHard"`
}

// configurationKind is the line that a KubeletConfiguration has, as a file of its own or within a script.
var configurationKind = regexp.MustCompile(`(?m)^([ \t]*)kind:\s*["']?KubeletConfiguration["']?\s*$`)

// configurationLine is a line of the document around it.
var configurationLine = regexp.MustCompile(`^(\s|#|-|[A-Za-z]+:|$)`)

// configure takes over what no flag has said.
func (r *Registration) configure(text string) error {
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, configurationKind.MatchString)
	if at < 0 {
		return nil
	}
	indent := configurationKind.FindStringSubmatch(lines[at])[1]
	within := func(line string) bool {
		inner, is := strings.CutPrefix(line, indent)
		return strings.TrimSpace(line) == "" || is && configurationLine.MatchString(inner) && inner != "---"
	}
	first, end := at, at+1
	for first > 0 && within(lines[first-1]) {
		first--
	}
	for end < len(lines) && within(lines[end]) {
		end++
	}
	var config configuration
	if err := yaml.Unmarshal([]byte(dedent(slices.Clone(lines[first:end]))), &config); err != nil {
		return errors.New("the KubeletConfiguration in the user data cannot be read")
	}
	r.MaxPods = cmp.Or(r.MaxPods, config.MaxPods)
	r.ProviderID = cmp.Or(r.ProviderID, config.ProviderID)
	var err error
	if r.KubeReserved, err = amounts(r.KubeReserved, config.KubeReserved); err != nil {
		return err
	}
	if r.SystemReserved, err = amounts(r.SystemReserved, config.SystemReserved); err != nil {
		return err
	}
	if len(r.EvictionHard) == 0 {
		maps.Copy(r.EvictionHard, config.EvictionHard)
	}
	return nil
}

// amounts are those that flags have told, or else those of a configuration.
func amounts(told corev1.ResourceList, texts map[string]string) (corev1.ResourceList, error) {
	if told != nil || len(texts) == 0 {
		return told, nil
	}
	list := corev1.ResourceList{}
	for name, text := range texts {
		quantity, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, errors.Errorf("%q is no amount of %s in the KubeletConfiguration in the user data", text, name)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// documents takes user data apart: it is unpacked, its parts are told from each other, and files that are encoded within are decoded.
func documents(data []byte) ([]string, error) {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, errors.New("user data is packed and cannot be unpacked")
		}
		if data, err = io.ReadAll(io.LimitReader(reader, maxUnpacked)); err != nil {
			return nil, errors.New("user data is packed and cannot be unpacked")
		}
	}
	begin := strings.ToLower(string(data[:min(len(data), 64)]))
	if strings.HasPrefix(begin, "mime-version:") || strings.HasPrefix(begin, "content-type:") {
		return parts(data)
	}
	texts := []string{string(data)}
	if !bytes.HasPrefix(data, []byte("#cloud-config")) {
		return texts, nil
	}
	var config struct {
		WriteFiles []struct {
			Content  string `json:"content"`
			Encoding string `json:"encoding"`
		} `json:"write_files"`
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, errors.New("user data begins with #cloud-config, and is no YAML")
	}
	// The files are taken from the document, whose own text would show them a second time.
	if len(config.WriteFiles) > 0 {
		texts = nil
	}
	for _, file := range config.WriteFiles {
		content := []byte(file.Content)
		if encoding := strings.ToLower(file.Encoding); strings.Contains(encoding, "b64") || strings.Contains(encoding, "base64") {
			decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(file.Content), ""))
			if err != nil {
				return nil, errors.New("a file in the user data is no base64")
			}
			content = decoded
		}
		inner, err := documents(content)
		if err != nil {
			return nil, err
		}
		texts = append(texts, inner...)
	}
	return texts, nil
}

func parts(data []byte) ([]string, error) {
	message, err := mail.ReadMessage(bytes.NewReader(data))
	if err != nil {
		return nil, errors.New("user data begins like MIME, and cannot be read")
	}
	_, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil {
		return nil, errors.New("user data begins like MIME, and cannot be read")
	}
	var texts []string
	for reader := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, errors.New("the parts of the user data cannot be told apart")
		}
		body, err := io.ReadAll(part)
		if err != nil {
			return nil, errors.New("the parts of the user data cannot be told apart")
		}
		if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
			if body, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(body)), "")); err != nil {
				return nil, errors.New("a part of the user data is no base64")
			}
		}
		inner, err := documents(body)
		if err != nil {
			return nil, err
		}
		texts = append(texts, inner...)
	}
}

const settings = `node-labels?|register-with-taints|node-taint|provider-id|kube-reserved|system-reserved|eviction-hard|max-pods`

var (
	// A flag, an element of kubelet-arg, or a key of YAML or JSON: --name=value, --name value, - name=value, name: "value".
	setting = regexp.MustCompile(`(?:(?:^|[\s"'=]|--)(` + settings + `)["']?\s*[=:]\s*|--(` + settings + `)\s+)(.+)$`)
	// An argument of kubeadm.
	argumentName  = regexp.MustCompile(`^-?\s*name:\s*["']?(` + settings + `)["']?$`)
	argumentValue = regexp.MustCompile(`^-?\s*value:\s*(.+)$`)
	// A list of K3s and RKE2.
	list = regexp.MustCompile(`^["']?(node-label|node-taint)\+?["']?:\s*$`)
	// Taints of kubeadm and of the configuration of the kubelet.
	taintList = regexp.MustCompile(`^(taints|registerWithTaints):\s*$`)
)

// scan looks at each line of a text.
func (r *Registration) scan(text string) error {
	var argument, listed string
	var taints []string
	scanner := bufio.NewScanner(strings.NewReader(text))
	scanner.Buffer(make([]byte, 0, 64<<10), maxUnpacked)
	for scanner.Scan() {
		raw := strings.TrimRight(scanner.Text(), " \t\r\\")
		line := strings.TrimSpace(raw)
		if listed == "taints" {
			if strings.HasPrefix(line, "-") || strings.HasPrefix(raw, " ") && !strings.HasPrefix(line, "kubeletExtraArgs") && line != "" && isTaintField(line) {
				taints = append(taints, raw)
				continue
			}
			listed = ""
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if match := argumentName.FindStringSubmatch(line); match != nil {
			argument = match[1]
			continue
		}
		if match := argumentValue.FindStringSubmatch(line); match != nil && argument != "" {
			if err := r.set(argument, match[1]); err != nil {
				return err
			}
			argument = ""
			continue
		}
		if match := list.FindStringSubmatch(line); match != nil {
			listed = match[1]
			continue
		}
		if element, is := strings.CutPrefix(line, "- "); is && listed != "" {
			if err := r.set(listed, element); err != nil {
				return err
			}
			continue
		}
		listed = ""
		if taintList.MatchString(line) {
			listed = "taints"
			continue
		}
		// There may be several flags in a line.
		for rest := line; rest != ""; {
			match := setting.FindStringSubmatch(rest)
			if match == nil {
				break
			}
			if err := r.set(match[1]+match[2], match[3]); err != nil {
				return err
			}
			rest = match[3]
		}
	}
	if len(taints) == 0 {
		return errors.Wrap(scanner.Err(), "read user data")
	}
	var parsed []corev1.Taint
	if err := yaml.Unmarshal([]byte(dedent(taints)), &parsed); err != nil {
		return errors.New("taints in the user data cannot be read")
	}
	for _, taint := range parsed {
		r.taint(taint)
	}
	return nil
}

func isTaintField(line string) bool {
	for _, field := range []string{"key:", "value:", "effect:"} {
		if strings.HasPrefix(line, field) {
			return true
		}
	}
	return false
}

func dedent(lines []string) string {
	indent := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i, line := range lines {
		lines[i] = line[min(indent, len(line)-len(strings.TrimLeft(line, " "))):]
	}
	return strings.Join(lines, "\n")
}

// word is the first word of a value, without quotes.
func word(value string) string {
	value = strings.TrimSpace(value)
	if value == "" {
		return ""
	}
	if quote := value[0]; quote == '"' || quote == '\'' {
		if end := strings.IndexByte(value[1:], quote); end >= 0 {
			return value[1 : end+1]
		}
	}
	if end := strings.IndexAny(value, " \t\"'"); end >= 0 {
		value = value[:end]
	}
	return strings.TrimSuffix(value, ",")
}

// set takes a setting over.
func (r *Registration) set(name, text string) error {
	if elements := []string(nil); strings.HasPrefix(text, "[") && yaml.Unmarshal([]byte(text), &elements) == nil {
		for _, element := range elements {
			if err := r.set(name, element); err != nil {
				return err
			}
		}
		return nil
	}
	value := word(text)
	var err error
	switch name {
	case "node-labels", "node-label":
		for _, pair := range strings.Split(value, ",") {
			if key, value, is := strings.Cut(pair, "="); is && key != "" {
				r.Labels[key] = value
			}
		}
	case "register-with-taints", "node-taint":
		for _, one := range strings.Split(value, ",") {
			if one == "" {
				continue
			}
			at := strings.LastIndex(one, ":")
			if at < 0 {
				return errors.Errorf("the taint %q in the user data has no effect", one)
			}
			key, value, _ := strings.Cut(one[:at], "=")
			r.taint(corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(one[at+1:])})
		}
	case "provider-id":
		// It may have a blank within, in an expression that the machine resolves.
		r.ProviderID = strings.Trim(strings.TrimSpace(text), `"',`)
	case "max-pods":
		r.MaxPods, err = strconv.ParseInt(value, 10, 64)
	case "kube-reserved":
		r.KubeReserved, err = resources(value)
	case "system-reserved":
		r.SystemReserved, err = resources(value)
	case "eviction-hard":
		for _, one := range strings.Split(value, ",") {
			if signal, amount, is := strings.Cut(one, "<"); is {
				r.EvictionHard[signal] = amount
			}
		}
	}
	return errors.Wrapf(err, "%s in the user data", name)
}

func (r *Registration) taint(taint corev1.Taint) {
	if !slices.ContainsFunc(r.Taints, func(other corev1.Taint) bool { return other.MatchTaint(&taint) }) {
		r.Taints = append(r.Taints, taint)
	}
}

func resources(text string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for _, pair := range strings.Split(text, ",") {
		name, amount, is := strings.Cut(pair, "=")
		if !is {
			continue
		}
		quantity, err := resource.ParseQuantity(amount)
		if err != nil {
			return nil, errors.Errorf("%q is no amount", amount)
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}

// instanceID is what stands for the id of the machine in a provider id: a word in the place of it, or an expression.
var instanceID = regexp.MustCompile(`@INSTANCE_ID@|\{\{[^}]*\}\}|"?'?"?\$\([^)]*\)"?|\$\{?[A-Za-z_]+\}?`)

// providerID is the provider id, with the id of the machine in it.
func (r *Registration) providerID(id string) string {
	if r.ProviderID == "" {
		return ""
	}
	return word(instanceID.ReplaceAllLiteralString(r.ProviderID, id))
}
