"""One measurement of one version: python part.py WHAT INDEX [...]; prints JSON."""
import json, resource, shutil, subprocess, sys, time, threading, random
from pathlib import Path
import numpy as np
import slimdex
from slimdex import Collection, Document
what, index = sys.argv[1], Path(sys.argv[2])
def cpu():
    r=resource.getrusage(resource.RUSAGE_SELF); return r.ru_utime+r.ru_stime
DIM=384
WORDS=("rain","ship","cake","stone","river","night","glass","road","wool","salt")
def docs(first,n,tag="new"):
    r=np.random.default_rng(first)
    t=[" ".join(r.choice(WORDS,12))+f" {tag}{first+i}" for i in range(n)]
    X=r.standard_normal((n,DIM)).astype(np.float32); X/=np.linalg.norm(X,axis=1,keepdims=True)
    return [Document(f"{tag}-{first+i}",t[i]) for i in range(n)],X
def timed(f,n):
    el,c=[],[]
    for i in range(n):
        a,b=time.perf_counter(),cpu(); f(i); el.append(time.perf_counter()-a); c.append(cpu()-b)
    return {"p50_ms":1e3*float(np.median(el)),"p90_ms":1e3*float(np.quantile(el,.9)),"cpu_ms":1e3*float(np.mean(c))}
if what=="build":
    name,model=sys.argv[3],sys.argv[4]
    import pickle
    ids,texts,X=pickle.load(open(f"costs/{name}.pkl","rb"))
    from slimdex import TransformerEncoder
    enc=TransformerEncoder(model)
    a,b=time.perf_counter(),cpu()
    with Collection.create(index,enc,passages="off") as c:
        c.add([Document(i,x) for i,x in zip(ids,texts)],vectors=X)
    print(json.dumps({"s":time.perf_counter()-a,"cpu_s":cpu()-b,"bytes":sum(p.stat().st_size for p in index.rglob("*") if p.is_file())/len(ids)}))
elif what in("one","update","thousand","delete"):
    seed=int(sys.argv[3])
    with Collection.open(index) as c:
        q=np.random.default_rng(1).standard_normal(DIM).astype(np.float32)
        c.search(q,10)
        n={"one":40,"update":40,"delete":40,"thousand":8}[what]
        data=[docs(seed*100000+i*(1000 if what=="thousand" else 1),1000 if what=="thousand" else 1) for i in range(n)]
        if what=="update":
            d,X=docs(seed*100000+50000,n); c.add(d,vectors=X)
            data=[([Document(d[i].id,d[i].text+f" changed {seed}")],-X[i:i+1]) for i in range(n)]
        if what=="delete":
            d,X=docs(seed*100000+70000,n); c.add(d,vectors=X)
            print(json.dumps(timed(lambda i:c.delete([d[i].id]),n)))
        else:
            print(json.dumps(timed(lambda i:c.add(data[i][0],vectors=data[i][1]),n)))
elif what=="growth":
    n,step=int(sys.argv[3]),1000
    import gzip
    with gzip.open("data/scale/sentences_large.tsv.gz","rt") as f:
        texts=[]
        for line in f:
            texts.append(line.rstrip("\n").split("\t")[-1])
            if len(texts)==n*step: break
    rng=np.random.default_rng(0)
    X=rng.standard_normal((len(texts),DIM),dtype=np.float32)
    D=[Document(str(i),t) for i,t in enumerate(texts)]
    from slimdex import GivenEncoder
    mode=sys.argv[4]
    a,b=time.perf_counter(),cpu()
    with Collection.create(index,GivenEncoder(DIM)) as c:
        if mode=="one": c.add(D,vectors=X)
        else:
            for i in range(0,len(D),step): c.add(D[i:i+step],vectors=X[i:i+step])
    print(json.dumps({"s":time.perf_counter()-a,"cpu_s":cpu()-b}))
    shutil.rmtree(index)
elif what=="search":
    import os
    k=int(sys.argv[3]); busy=int(sys.argv[4])
    others=[subprocess.Popen([sys.executable,"-c","while True: pass"]) for _ in range(busy)]
    el,c=[],[]
    try:
        for i in range(k):
            r=resource.getrusage(resource.RUSAGE_CHILDREN); b0=r.ru_utime+r.ru_stime; a=time.perf_counter()
            p=subprocess.run([sys.executable,"-m","slimdex","search",str(index),"who repaired the heating","-n","3"],capture_output=True,check=True)
            el.append(time.perf_counter()-a); r=resource.getrusage(resource.RUSAGE_CHILDREN); c.append(r.ru_utime+r.ru_stime-b0)
    finally:
        for o in others: o.kill()
    print(json.dumps({"p50_s":float(np.median(el)),"cpu_s":float(np.median(c))}))
elif what=="serve":
    import urllib.request
    p=subprocess.Popen([sys.executable,"-m","slimdex","serve",f"served={index}","--port","0"],stdout=subprocess.PIPE,stderr=subprocess.DEVNULL,text=True)
    url=p.stdout.readline().strip()
    qs=[l.strip() for l in open("costs/queries.txt")]
    def ask(q):
        req=urllib.request.Request(f"{url}/indexes/served/search",json.dumps({"query":q,"limit":10}).encode(),{"Content-Type":"application/json"})
        return urllib.request.urlopen(req,timeout=60).read()
    def mem():
        t=open(f"/proc/{p.pid}/smaps_rollup").read()
        g=lambda n:int(next(l for l in t.splitlines() if l.startswith(n+":")).split()[1])/1e3*1.024
        return g("Rss"),g("Private_Dirty")
    try:
        for _ in range(200):
            try: ask(qs[0]); break
            except Exception as e: last=e; time.sleep(.2)
        else: raise last
        time.sleep(2); ask(qs[1]); time.sleep(2); m1=mem()
        el=[]
        for q in qs[2:102]:
            a=time.perf_counter(); ask(q); el.append(time.perf_counter()-a)
        import psutil; P=psutil.Process(p.pid); c0=sum(P.cpu_times()[:2])
        stop=time.time()+8; count=[0]
        def loop(k):
            i=k
            while time.time()<stop: ask(qs[i%len(qs)]); count[0]+=1; i+=64
        th=[threading.Thread(target=loop,args=(k,)) for k in range(64)]
        [t.start() for t in th]; [t.join() for t in th]
        c1=sum(P.cpu_times()[:2]); time.sleep(2); m2=mem()
        print(json.dumps({"rss":m1[0],"dirty":m1[1],"rss64":m2[0],"dirty64":m2[1],"p50_ms":1e3*float(np.median(el)),"per_s64":count[0]/8,"cpu_ms64":1e3*(c1-c0)/count[0]}))
    finally:
        p.terminate(); p.wait()
elif what=="open":
    def smaps():
        t=open("/proc/self/smaps_rollup").read()
        return int(next(l for l in t.splitlines() if l.startswith("Private_Dirty:")).split()[1])/1e3*1.024
    import gc; gc.collect(); a=smaps()
    c=Collection.open(index); c.__enter__()
    q=np.random.default_rng(1).standard_normal(DIM).astype(np.float32)
    c.search(q,10)
    print(json.dumps({"mb":smaps()-a}))
