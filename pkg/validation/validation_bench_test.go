package validation_test

import (
	"testing"

	"github.com/plantonhq/project-planton/pkg/validation"
)

func BenchmarkValidate(b *testing.B) {
	message := validVpc()
	b.ReportAllocs()
	for b.Loop() {
		if err := validation.Validate(message); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemo(b *testing.B) {
	memo, message := validation.NewMemo(), validVpc()
	b.ReportAllocs()
	for b.Loop() {
		if !memo.Valid(message) {
			b.Fatal(validation.Validate(message))
		}
	}
}
