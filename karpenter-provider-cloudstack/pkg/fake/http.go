package fake

import (
	"crypto/hmac"
	"crypto/sha1" // the signature of CloudStack is HMAC-SHA1
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Error codes.
const (
	codeUnauthorized         = 401
	codeThrottled            = 429
	codeParameter            = 431
	codeUnsupported          = 432
	codeInternal             = 530
	codeAccount              = 531
	codeInsufficientCapacity = 533
	codeResourceAllocation   = 535

	exceptionParameter    = 4350
	exceptionUnclassified = 9999
)

// timeLayout is how CloudStack writes times.
const timeLayout = "2006-01-02T15:04:05-0700"

// object is JSON.
type object = map[string]any

// parameters are those of a request, by their names in lower case. The names of details keep theirs.
type parameters map[string]string

// failure is an error of CloudStack.
type failure struct {
	code, exception int
	text            string
}

func refuse(code int, format string, arguments ...any) *failure {
	exception := exceptionUnclassified
	if code == codeParameter {
		exception = exceptionParameter
	}
	return &failure{code: code, exception: exception, text: fmt.Sprintf(format, arguments...)}
}

func missing(command, name string) *failure {
	return &failure{
		code: codeParameter, exception: exceptionUnclassified,
		text: "Unable to execute API command " + command + " due to missing parameter " + name,
	}
}

func unknownID(name, value string) *failure {
	return &failure{code: codeParameter, exception: exceptionUnclassified, text: fmt.Sprintf("Invalid parameter %s value=%s due to incorrect long value format, "+
		"or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.", name, value)}
}

// command is what a request does. It is called with c locked.
type command func(c *CloudStack, p parameters, r *call) (object, *failure)

// call is a request under way.
type call struct {
	method     string
	fault      Fault
	rawDetails map[string]string
	jobID      string
}

func reads(f func(*CloudStack, parameters) (object, *failure)) command {
	return func(c *CloudStack, p parameters, _ *call) (object, *failure) { return f(c, p) }
}

// commands are those that there are. All others are answered with 432.
var commands = map[string]command{
	"createAffinityGroup":   (*CloudStack).createAffinityGroup,
	"createTags":            (*CloudStack).createTags,
	"deleteAffinityGroup":   (*CloudStack).deleteAffinityGroup,
	"deleteTags":            (*CloudStack).deleteTags,
	"deleteVolume":          reads((*CloudStack).deleteVolume),
	"deployVirtualMachine":  (*CloudStack).deployVirtualMachine,
	"destroyVirtualMachine": (*CloudStack).destroyVirtualMachine,
	"expungeVirtualMachine": (*CloudStack).expungeVirtualMachine,
	"listAffinityGroups":    reads((*CloudStack).listAffinityGroups),
	"listCapabilities":      reads((*CloudStack).listCapabilities),
	"listDiskOfferings":     reads((*CloudStack).listDiskOfferings),
	"listNetworks":          reads((*CloudStack).listNetworks),
	"listProjects":          reads((*CloudStack).listProjects),
	"listSecurityGroups":    reads((*CloudStack).listSecurityGroups),
	"listServiceOfferings":  reads((*CloudStack).listServiceOfferings),
	"listTemplates":         reads((*CloudStack).listTemplates),
	"listVirtualMachines":   reads((*CloudStack).listVirtualMachines),
	"listVolumes":           reads((*CloudStack).listVolumes),
	"listZones":             reads((*CloudStack).listZones),
	"queryAsyncJobResult":   reads((*CloudStack).queryAsyncJobResult),
	"startVirtualMachine":   (*CloudStack).startVirtualMachine,
	"stopVirtualMachine":    (*CloudStack).stopVirtualMachine,
}

// maxBody bounds a request: user data is 1 MiB at most, base64, escaped.
const maxBody = 4 << 20

// ServeHTTP answers a request to the API.
func (c *CloudStack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.TrimSuffix(r.URL.Path, "/") != Path {
		http.NotFound(w, r)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	if c.isDown() {
		drop()
	}
	pause(r, c.options.RequestLatency)
	name := r.Form.Get("command")
	request := Request{Command: name, Method: r.Method, Parameters: loggable(r.Form)}

	unlock := c.lock()
	c.settle()
	request.At = c.clock.Now()
	refusal := c.admit(r.Form)
	var fault Fault
	if refusal == nil {
		fault = c.faultOf(request)
	}
	unlock()

	if refusal != nil {
		c.answer(w, request, nil, refusal)
		return
	}
	pause(r, fault.Delay)
	if fault.Before != nil {
		fault.Before(request)
	}
	if fault.Drop {
		c.keep(request)
		drop()
	}
	if fault.Status != 0 {
		request.Code = fault.Status
		c.keep(request)
		http.Error(w, "<html><body>something between</body></html>", fault.Status)
		return
	}
	if fault.Code != 0 {
		text := fault.Text
		if text == "" {
			text = "a planned fault"
		}
		c.answer(w, request, nil, &failure{code: fault.Code, exception: fault.ExceptionCode, text: text})
		return
	}

	unlock = c.lock()
	c.settle()
	under := &call{method: r.Method, fault: fault, rawDetails: details(r.Form)}
	result, refusal := commands[name](c, lowered(r.Form), under)
	request.JobID = under.jobID
	unlock()

	if fault.After != nil {
		fault.After(request)
	}
	if fault.LoseAnswer {
		c.keep(request)
		drop()
	}
	c.answer(w, request, result, refusal)
}

func (c *CloudStack) isDown() bool {
	defer c.lock()()
	return c.down
}

func (c *CloudStack) keep(request Request) {
	defer c.lock()()
	c.remember(request)
}

func pause(r *http.Request, length time.Duration) {
	if length <= 0 {
		return
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

func (c *CloudStack) answer(w http.ResponseWriter, request Request, result object, refusal *failure) {
	request.Code = http.StatusOK
	var body any = result
	if result == nil {
		body = object{}
	}
	if refusal != nil {
		request.Code = refusal.code
		failed := object{"uuidList": []string{}, "errorcode": refusal.code, "errortext": refusal.text}
		if refusal.exception != 0 {
			failed["cserrorcode"] = refusal.exception
		}
		body = failed
	}
	c.keep(request)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(request.Code)
	_ = json.NewEncoder(w).Encode(object{strings.ToLower(request.Command) + "response": body}) // who asked may be gone
}

// admit checks signature, command and rate. c is locked.
func (c *CloudStack) admit(form url.Values) *failure {
	unverified := refuse(codeUnauthorized, "unable to verify user credentials and/or request signature")
	name, expires := form.Get("command"), form.Get("expires")
	known := commands[name] != nil
	if !c.signed(form) {
		return unverified
	}
	if form.Get("signatureversion") == "3" {
		until, err := time.Parse(timeLayout, strings.Replace(expires, "Z", "+0000", 1))
		if err != nil || until.Before(time.Now().Add(c.skew)) {
			return unverified
		}
	}
	if c.throttleMax > 0 {
		now := time.Now()
		if now.Sub(c.throttleSince) >= c.throttleEvery {
			c.throttleSince, c.throttled = now, 0
		}
		if c.throttled++; c.throttled > c.throttleMax {
			wait := c.throttleEvery - now.Sub(c.throttleSince)
			return refuse(codeThrottled, "The given user has reached his/her account api limit, please retry after %d ms.", wait.Milliseconds())
		}
	}
	if !known {
		return refuse(codeUnsupported, "The given command '%s' either does not exist, is not available for user, or not available from ip address.", name)
	}
	return nil
}

// signed tells whether the signature is right. c is locked.
func (c *CloudStack) signed(form url.Values) bool {
	var unsigned []string
	var apiKey, signature string
	for _, name := range slices.Sorted(maps.Keys(form)) {
		value := form.Get(name)
		switch {
		case strings.EqualFold(name, "signature"):
			signature = value
			continue
		case strings.EqualFold(name, "apikey"):
			apiKey = value
		}
		unsigned = append(unsigned, name+"="+javaEscape(value))
	}
	mac := hmac.New(sha1.New, []byte(c.secret))
	mac.Write([]byte(strings.ToLower(strings.Join(unsigned, "&"))))
	given, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && apiKey == c.apiKey && hmac.Equal(given, mac.Sum(nil))
}

// javaEscape escapes as the server does, which is how URLEncoder of Java does, with %20 for blanks. Other than Go, it escapes ~, and not *.
func javaEscape(value string) string {
	return strings.NewReplacer("+", "%20", "%2A", "*", "~", "%7E").Replace(url.QueryEscape(value))
}

// lowered are the parameters, by names in lower case.
func lowered(form url.Values) parameters {
	p := make(parameters, len(form))
	for name := range form {
		p[strings.ToLower(name)] = form.Get(name)
	}
	return p
}

// details are details[0].key=value, with the key as it is.
func details(form url.Values) map[string]string {
	found := map[string]string{}
	for name := range form {
		if rest, is := strings.CutPrefix(name, "details["); is {
			if _, key, is := strings.Cut(rest, "]."); is {
				found[key] = form.Get(name)
			}
		}
	}
	return found
}

// loggable are the parameters that may be shown.
func loggable(form url.Values) map[string]string {
	shown := make(map[string]string, len(form))
	for name := range form {
		switch strings.ToLower(name) {
		case "apikey", "signature", "signatureversion", "expires", "response", "command":
		case "userdata":
			shown[name] = strconv.Itoa(len(form.Get(name))) + " characters"
		default:
			shown[name] = form.Get(name)
		}
	}
	return shown
}

// list splits a list of ids.
func (p parameters) list(name string) []string {
	return strings.FieldsFunc(p[name], func(r rune) bool { return r == ',' || r == ' ' })
}

// number reads a number, 0 where there is none.
func (p parameters) number(name string) (int64, *failure) {
	if p[name] == "" {
		return 0, nil
	}
	value, err := strconv.ParseInt(p[name], 10, 64)
	if err != nil {
		return 0, refuse(codeParameter, "Unable to parse the value of parameter %s: a number is needed", name)
	}
	return value, nil
}

// tags reads tags[0].key and tags[0].value. Where values are needed, a tag without one is refused.
func (p parameters) tags(values bool) (map[string]string, map[string]bool, *failure) {
	tags, without := map[string]string{}, map[string]bool{}
	for name, key := range p {
		number, is := strings.CutPrefix(name, "tags[")
		if !is || !strings.HasSuffix(number, "].key") {
			continue
		}
		value, has := p["tags["+strings.TrimSuffix(number, ".key")+".value"]
		if key == "" || values && (!has || value == "") {
			return nil, nil, refuse(codeParameter, "tags needs key and value, and %q has no value", key)
		}
		if !has {
			without[key] = true
		}
		tags[key] = value
	}
	return tags, without, nil
}
