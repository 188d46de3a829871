"""What pytest does without where tests start it: plugins of others, which take as long to load as pytest itself."""

_NAMES = ("anyio", "benchmark", "codspeed", "hypothesispytest", "platformdirs")
WITHOUT_OTHERS = tuple(f"-pno:{name}" for name in _NAMES)
