# . blocks.sh, with $demo set, in an empty folder: hedge/ is the demo's model with the first three of its six
# blocks, a first one, a last one and one between. Files of weights may hold more than a model has.

mkdir hedge
cp "$demo/hedge/"* hedge
sed 's/"num_hidden_layers": 6/"num_hidden_layers": 3/' "$demo/hedge/config.json" > hedge/config.json
