import sys,pickle
from pathlib import Path
import numpy as np
from slimdex.bench.datasets import load_dataset, encoded, open_local
enc=open_local('study/models/all-MiniLM-L6-v2')
for name in('squad-sent-nqg','debian-desc'):
    d=load_dataset(name,Path('data/retrieval'))
    v=encoded(enc,d.texts,Path('study/cache')); X=v.take(np.arange(len(d.texts)))
    pickle.dump((list(map(str,d.ids)),list(d.texts),X),open(f'costs/{name}.pkl','wb'))
    if name=='squad-sent-nqg':
        open('costs/queries.txt','w').write("\n".join(" ".join(q.split()) for q in d.query_texts[:500]))
    print(name,X.shape,X.dtype)
