import json,os,subprocess,sys,time,shutil
from pathlib import Path
V={"old":"before","new":sys.argv[1]}
OUT=Path("costs/rows.jsonl"); T=Path("indexes"); T.mkdir(exist_ok=True)
MODEL="study/models/all-MiniLM-L6-v2"
only=set(sys.argv[2].split(",")) if len(sys.argv)>2 else None
def part(v,*a,timeout=900):
    e=dict(os.environ,PYTHONPATH=V[v])
    try:
        r=subprocess.run(["python","costs/part.py",*map(str,a)],env=e,capture_output=True,text=True,timeout=timeout,cwd="/tmp")
        row=json.loads(r.stdout.strip().splitlines()[-1]) if r.returncode==0 else {"error":r.stderr[-400:]}
    except subprocess.TimeoutExpired: row={"error":"timeout"}
    row={"what":a[0],"version":v,"args":[str(x) for x in a[1:]],"load":os.getloadavg()[0],**row}
    print(row,flush=True); OUT.open("a").write(json.dumps(row)+"\n")
def want(n): return only is None or n in only
if want("build"):
    for s in("debian-desc","squad-sent-nqg"):
        for v in V:
            shutil.rmtree(T/f"{v}-{s}",ignore_errors=True); part(v,"build",T/f"{v}-{s}",s,MODEL)
R=int(sys.argv[3]) if len(sys.argv)>3 else 3
for i in range(R):
    for v in (V if i%2==0 else list(V)[::-1]):
        for w in("one","update","delete","thousand"):
            if want(w): part(v,w,T/f"{v}-debian-desc",i+1)
        if want("open"): part(v,"open",T/f"{v}-debian-desc")
        if want("serve"): part(v,"serve",T/f"{v}-squad-sent-nqg")
        if want("search"):
            part(v,"search",T/f"{v}-squad-sent-nqg",7,0); part(v,"search",T/f"{v}-squad-sent-nqg",7,2)
if want("growth"):
    for v in V:
        for m in("one","many"): part(v,"growth",T/f"{v}-growth",int(os.environ.get("N","200")),m)
