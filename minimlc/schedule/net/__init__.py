"""The net under the primitives: steps checked by running, and what to try instead."""
