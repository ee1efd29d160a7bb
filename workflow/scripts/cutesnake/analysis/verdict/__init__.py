"""Which DSL wins on which GPU, how sure that is, why, and what each kernel costs."""
