"""The net under the primitives: steps checked by running, and advice on refused ones."""

from minimlc.loops.schedule.nets import Net
from minimlc.loops.schedule.schedule import Schedule
from minimlc.services.net.advice import explained, remedy
from minimlc.services.net.check import check_step, fault


class SafetyNet(Net):
    """Compares each step's result with the start, and tries out its advice."""

    check = staticmethod(check_step)
    fault = staticmethod(fault)
    remedy = staticmethod(remedy)
    explained = staticmethod(explained)


Schedule.usual_net = SafetyNet()
