"""The pipelines of `kraftlog pipeline`: one file each, with `run(arguments) -> exit code`."""
