from __future__ import annotations
import sys, time
from kraftlog.simulator.explorer.bounds import Bound
from kraftlog.simulator.explorer.search import explore
for b in [Bound("x",epochs=1,records=0,crashes=(0,0,0)),Bound("x",epochs=1,records=1,crashes=(0,0,0)),Bound("x",epochs=1,records=1),Bound("x",epochs=2,records=0,crashes=(0,0,0)),Bound("x",epochs=2,records=0),Bound("x",epochs=1,records=0,asks_first=True,crashes=(0,0,0))]:
    t=time.process_time(); end=t+float(sys.argv[1])
    r=explore(b,10**7,lambda:time.process_time()<end)
    t=time.process_time()-t
    print(b); print(r.states,r.transitions,r.depth,r.exhausted,round(t,1), round(r.transitions/t))
    print("\n".join(r.scenario))
