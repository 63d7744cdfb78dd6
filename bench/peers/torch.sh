# Sourced: `python` becomes that of an environment with PyTorch, installed once into build/.
peer_venv=build/peer-venv
if [ ! -x "$peer_venv/bin/python" ]; then
  python3 -c 'import ensurepip' 2>/dev/null || scripts/install.sh scripts/packages_bench.txt
  echo "installing PyTorch into $peer_venv (once)" >&2
  python3 -m venv "$peer_venv"
  "$peer_venv/bin/pip" install -q -r bench/peers/requirements.txt
fi
python() { "$peer_venv/bin/python" "$@"; }
