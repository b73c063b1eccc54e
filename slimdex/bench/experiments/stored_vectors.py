import numpy as np, pickle, sys, os
os.environ['OPENBLAS_NUM_THREADS']='1'
sys.path.insert(0,'/work/h4')
from pathlib import Path
from slimdex.indexes.vectors.row_formats import packed, unpacked
from slimdex.retrieval.lexical.weighting import word_bonuses
from slimdex.retrieval.lexical.word_index import ScoredRows
C=Path('/work/study/cache'); DISC=1/np.log2(np.arange(2,12))
def ndcg(order, labels):
    g=np.array([labels.get(int(r),0) for r in order[:10]],float)
    ideal=np.sort(np.array(list(labels.values()),float))[::-1][:10]
    i=(ideal*DISC[:len(ideal)]).sum()
    return (g*DISC[:len(g)]).sum()/i if i else 0.
def gauss_levels(bits):
    from numpy.random import default_rng
    x=np.sort(default_rng(0).standard_normal(200000)); n=2**bits
    c=np.quantile(x,(np.arange(n)+.5)/n)
    for _ in range(200):
        b=(c[1:]+c[:-1])/2; idx=np.searchsorted(b,x); s=np.bincount(idx,x,n); k=np.bincount(idx,minlength=n); c=np.where(k>0,s/np.maximum(k,1),c)
    return c.astype('f4')
LV={b:gauss_levels(b) for b in (4,)}
def rot(d): 
    q,r=np.linalg.qr(np.random.default_rng(1).standard_normal((d,d))); return (q*np.sign(np.diag(r))).astype('f4')
def rowint(D,bits):
    s=np.abs(D).max(1,keepdims=True)/(2**(bits-1)-1); return np.rint(D/s)*s
def blockq(D,bits,B=32):
    n,d=D.shape; X=D.reshape(n,d//B,B); m=2**(bits-1)-1
    s=np.abs(X).max(2,keepdims=True)/m; s=np.where(s==0,1,s); return (np.rint(X/s)*s).reshape(n,d)
def axes(D):
    S=D.T.astype('f8')@D/len(D); lam,U=np.linalg.eigh(S); return U[:,::-1].astype('f4'),lam[::-1]
def whitened(D,bits):  # per-dimension range by quantiles in the principal basis, FAISS's scalar quantiser
    U,lam=axes(D); Y=D@U; lo,hi=np.quantile(Y[:20000],[.0005,.9995],axis=0) if bits<8 else (Y.min(0),Y.max(0))
    lo,hi=lo.astype('f4'),hi.astype('f4'); s=(hi-lo)/(2**bits-1); return (np.clip(np.rint((Y-lo)/s),0,2**bits-1)*s+lo)@U.T
def lloyd4(D):
    R=rot(D.shape[1]); mu=D.mean(0); Y=(D-mu)@R; s=Y.std(1,keepdims=True); c=LV[4]; b=(c[1:]+c[:-1])/2
    return (c[np.searchsorted(b,Y/s)]*s)@R.T+mu
def rotrow(D,bits):
    R=rot(D.shape[1]); return rowint(D@R,bits)@R.T
def rotblock(D,bits):
    R=rot(D.shape[1]); return blockq(D@R,bits)@R.T
CODES={'fp16':lambda D:D.astype('f2').astype('f4'),'int8':lambda D:unpacked(packed(D),D.shape[1]),'int8row':lambda D:rowint(D,8),'rot8row':lambda D:rotrow(D,8),
 'pca8':lambda D:whitened(D,8),'blk6':lambda D:blockq(D,6),'rot6blk':lambda D:rotblock(D,6),'rot6row':lambda D:rotrow(D,6),'pca6':lambda D:whitened(D,6),'pca4':lambda D:whitened(D,4),'rot4lloyd':lloyd4,'rot4blk':lambda D:rotblock(D,4)}
def cen(D,bits,B=32):
    mu=D.mean(0); return blockq(D-mu,bits,B)+mu
CODES|={'cen8':lambda D:cen(D,8),'blk16':lambda D:blockq(D,8,16),'cen6':lambda D:cen(D,6),'cen4blk':lambda D:cen(D,4)}
unit=lambda X:X/np.maximum(np.linalg.norm(X,axis=1,keepdims=True),1e-9)
def one(e,s,codes,nq=1000):
    w=pickle.load(open(C/f'words-{s}.pkl','rb')); D=np.load(C/f'{e}-{s}-D.npy'); Q=unit(np.load(C/f'{e}-{s}-Q.npy'))
    labels,own=w['labels'],w['own']
    def ev(X):
        X=unit(X); mu=X.mean(0); tops=[];m=[];f=[]
        for i in range(0,len(Q),128):
            S=Q[i:i+128]@X.T
            for j in range(len(S)):
                c=S[j]; k=min(200,len(c)-1); t=np.argpartition(-c,k)[:k]; t=t[np.lexsort((t,-c[t]))]
                o=t[t!=own[i+j]][:10]; tops.append(o); m.append(ndcg(o,labels[i+j]))
                q=w['q'][i+j]; rows=np.union1d(t,q['rows']); b=np.zeros(len(rows),'f4'); b[np.searchsorted(rows,q['rows'])]=q['scores']
                near=ScoredRows(c[t],t); words=ScoredRows(q['scores'],q['rows'],ideal=q['ideal'],terms=len(q['words']))
                sc=c[rows]+word_bonuses(b,c[rows],near,words,float(Q[i+j]@mu),len(X))+2*np.isin(rows,q['named'])
                oo=rows[np.lexsort((rows,-c[rows],-sc))]; oo=oo[oo!=own[i+j]][:10]; f.append((oo,ndcg(oo,labels[i+j])))
        return tops,np.array(m),[a for a,_ in f],np.array([b for _,b in f])
    base=ev(D); print(f'{s} {e} n={len(D)} q={len(Q)} exact {100*base[1].mean():.2f} {100*base[3].mean():.2f}',flush=True)
    out=[]
    for name in codes:
        r=ev(CODES[name](D)); ag=lambda a,b:np.mean([len(np.intersect1d(x,y))/max(len(x),1) for x,y in zip(a,b)])
        d=r[1]-base[1]; fd=r[3]-base[3]
        row=(s,e,name,100*d.mean(),100*d.std()/len(d)**.5,ag(base[0],r[0]),100*fd.mean(),100*fd.std()/len(fd)**.5,ag(base[2],r[2])); out.append(row)
        print(f'   {name:10} sem {row[3]:+.3f} (se {row[4]:.3f}) ag {row[5]:.4f}   fused {row[6]:+.3f} (se {row[7]:.3f}) ag {row[8]:.4f}',flush=True)
    return out
if __name__=='__main__':
    es=sys.argv[1].split(','); ss=sys.argv[2].split(','); codes=sys.argv[3].split(',') if len(sys.argv)>3 else list(CODES)
    allr=[]
    for s in ss:
        for e in es:
            if (C/f'{e}-{s}-Q.npy').exists() and (C/f'words-{s}.pkl').exists(): allr+=one(e,s,codes)
    pickle.dump(allr,open(f'/tmp/h4/res-{sys.argv[4] if len(sys.argv)>4 else "x"}.pkl','wb'))
