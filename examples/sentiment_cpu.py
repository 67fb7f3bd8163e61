"""The sentiment experiment (section 4.1) without a GPU: the same recipe in float32, one seed.

poise run examples/sentiment_cpu.py        # about 15 minutes of XE and 35 of FCL on two cores
python docs/sentiment.py runs/sentiment-cpu   # the strips of tokens as a picture
"""

from poise.recipes.sentiment.treebank import experiment

EXPERIMENT = experiment("sentiment-cpu", precision="float32", seeds=1)
