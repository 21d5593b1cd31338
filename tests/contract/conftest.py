from hypothesis import settings

# A busy machine is not a failing property; the run as a whole has its time limit.
settings.register_profile("contract", deadline=None)
settings.load_profile("contract")
