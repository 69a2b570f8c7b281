"""The pipelines of `kraftlog pipeline`, a file each with `run(arguments) -> exit code`."""
