"""What a job, a run and a schedule are, and what follows from them: values in, values out."""
