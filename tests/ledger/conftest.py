"""Properties are judged by what they find; how long an example takes on a busy machine says nothing."""

import hypothesis

hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.load_profile("unhurried")
