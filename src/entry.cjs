// `src/web.ts` and `src/worker.ts` are symbolic links to this file, entry.cjs. Node 20 cannot load a .ts file. But it
// follows these links and runs this .cjs file, which can say that Node 24 is needed.
const script = process.argv[1]?.endsWith('worker.ts') ? 'worker' : 'web';

if (Number.parseInt(process.versions.node, 10) < 24) {
  const message =
    `Routemaster needs Node 24 or later; this is ${process.version}. ` +
    `Run bin/setup, then node_modules/.bin/node src/${script}.ts: bin/setup puts Node 24 there.`;
  process.stderr.write(`${message}\n`);
  process.exit(78);
}

void (script === 'worker' ? import('./processes/worker_main.ts') : import('./processes/web_main.ts'));
