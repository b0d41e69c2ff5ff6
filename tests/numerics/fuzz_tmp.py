import numpy as np, pytest, sys
from hypothesis import given, settings, HealthCheck, strategies as st
from helpers.random_robots import robots
from helpers.scan import *
from helpers.scan import tree_of_text
from gridgen.errors import ModelError
from gridgen.schedules.team.schedule import Teams
from gridgen.schedules.warp.schedule import WarpSchedule
from numerics.robots import load_tree, resisting
seen={}
@settings(max_examples=60, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(urdf=robots(most=7), floating=st.booleans(), pick=st.integers(0,10**6))
def test_fuzz(urdf, floating, pick):
    try: tree=tree_of_text(urdf, floating_base=floating, joint_dynamics=True, armature=0.1)
    except ModelError: return
    f=EACH_WARP_KERNEL[pick%len(EACH_WARP_KERNEL)]
    s=WarpSchedule(Teams(tree))
    r=s.refusal(KERNELS[f].key)
    seen[r]=seen.get(r,0)+1
    if r: return
    inputs=random_inputs(tree,f,2)
    outs,_=run_all(module_of(tree,f,observed=False),f,inputs)
    for o,e in zip(outs,references(tree,f,inputs),strict=True):
        assert relative_error(o,e)<=1e-12, (f,relative_error(o,e))
def test_seen(): print(seen)
