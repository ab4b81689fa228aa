package bootstrap

import (
	"reflect"
	"slices"
	"strings"
	"text/template"

	"github.com/pkg/errors"
)

// mapFunctions are those functions of sprig that read maps. Sprig's own refuse maps that are typed, as Labels and Arguments are and what
// split gives, and have keys in no order, which would give one machine two texts.
func mapFunctions() template.FuncMap {
	return template.FuncMap{"get": get, "hasKey": hasKey, "keys": keys, "values": values, "pick": pick, "omit": omit}
}

// entries is a map whose keys are text. The error has its type alone: what it holds may be secret.
func entries(function string, of any) (reflect.Value, error) {
	value := reflect.ValueOf(of)
	if value.Kind() != reflect.Map || value.Type().Key().Kind() != reflect.String {
		return reflect.Value{}, errors.Errorf("%s takes a map such as .Labels, and not a %T", function, of)
	}
	return value, nil
}

// sorted are the keys of a map in their order.
func sorted(entries reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(entries.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

// get is the value of a key; the empty text where there is none.
func get(of any, key string) (any, error) {
	from, err := entries("get", of)
	if err != nil {
		return nil, err
	}
	if value := from.MapIndex(reflect.ValueOf(key).Convert(from.Type().Key())); value.IsValid() {
		return value.Interface(), nil
	}
	return "", nil
}

func hasKey(of any, key string) (bool, error) {
	in, err := entries("hasKey", of)
	return err == nil && in.MapIndex(reflect.ValueOf(key).Convert(in.Type().Key())).IsValid(), err
}

func keys(of ...any) ([]string, error) {
	all := []string{}
	for _, one := range of {
		from, err := entries("keys", one)
		if err != nil {
			return nil, err
		}
		for _, key := range sorted(from) {
			all = append(all, key.String())
		}
	}
	return all, nil
}

// values are in the order of their keys.
func values(of any) ([]any, error) {
	from, err := entries("values", of)
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, key := range sorted(from) {
		all = append(all, from.MapIndex(key).Interface())
	}
	return all, nil
}

// pick is a map of the same type, so that labels stay text of the same form, with these keys only.
func pick(of any, keys ...string) (any, error) {
	return filter("pick", of, func(key string) bool { return slices.Contains(keys, key) })
}

// omit is a map of the same type without these keys.
func omit(of any, keys ...string) (any, error) {
	return filter("omit", of, func(key string) bool { return !slices.Contains(keys, key) })
}

func filter(function string, of any, keep func(key string) bool) (any, error) {
	from, err := entries(function, of)
	if err != nil {
		return nil, err
	}
	kept := reflect.MakeMap(from.Type())
	for _, key := range from.MapKeys() {
		if keep(key.String()) {
			kept.SetMapIndex(key, from.MapIndex(key))
		}
	}
	return kept.Interface(), nil
}
