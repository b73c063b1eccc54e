import json,statistics as s
R=[json.loads(l) for l in open('costs/rows.jsonl')]
def med(what,v,key,**kw):
    x=[r[key] for r in R if r['what']==what and r['version']==v and key in r and all(r['args'][i]==a for i,a in kw.get('args',{}).items())]
    return s.median(x) if x else None
out=[]
def line(name,what,key,fmt,key2=None,fmt2='{:.0f}',scale=1,**kw):
    f=lambda v,k,fm: (lambda m:'' if m is None else fm.format(m*scale))(med(what,v,k,**kw)) if k else ''
    out.append(f"| {name} | {f('old',key,fmt)} | {f('new',key,fmt)} | {f('old',key2,fmt2)} | {f('new',key2,fmt2)} |")
line('add one document, ms','one','p50_ms','{:.1f}','cpu_ms','{:.1f}')
line('replace one, ms','update','p50_ms','{:.1f}','cpu_ms','{:.1f}')
line('delete one, ms','delete','p50_ms','{:.1f}','cpu_ms','{:.1f}')
line('add a thousand, ms','thousand','p50_ms','{:.0f}','cpu_ms','{:.0f}')
g={}
for v in('old','new'):
    for k in('s','cpu_s'):
        g[v,k]=med('growth',v,k,args={2:'many'})/med('growth',v,k,args={2:'one'})
out.append(f"| many additions, times one | {g['old','s']:.2f} | {g['new','s']:.2f} | {g['old','cpu_s']:.2f} | {g['new','cpu_s']:.2f} |")
line('`slimdex search`, ms','search','p50_s','{:.0f}','cpu_s','{:.0f}',scale=1000,args={2:'0'})
line('service after a search, MB','serve','rss','{:.0f}')
line('of these private, MB','serve','dirty','{:.0f}')
line('service after 64 callers, MB','serve','rss64','{:.0f}')
line('of these private, MB','serve','dirty64','{:.0f}')
line('disk, bytes a sentence of squad-sent-nqg','build','bytes','{:,.0f}',args={1:'squad-sent-nqg'})
line('disk, bytes a description of debian-desc','build','bytes','{:,.0f}',args={1:'debian-desc'})
print("|  | before | now | processor time before | now |\n| --- | ---: | ---: | ---: | ---: |")
print("\n".join(out))
