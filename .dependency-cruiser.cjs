// The rooms of the house, and who may import whom: entries (of the commands and of processes) → console → http → the story
// folders → store → leaves (files of src/, src/config/ and src/routing/; they import other leaves at most). Of a story folder's neighbours it may use those that its row names.

const leaves =
  '^src/(backoff|chunks|clock|config|edit_distance|errors|html|ids|json|log|node_http|release|sharing|sum|urls)[.]ts$|^src/(config|routing)/';
const entries = '^src/(entry[.]cjs|(web|worker|takeover|move)[.]ts)$|^src/processes/';

/** What each folder of src/ may import, beside itself and the leaves. A row names only folders above it in the table. */
const folders = {
  store: [],
  authentication: ['store'],
  metrics: ['authentication', 'store'],
  subscribing: ['authentication', 'metrics', 'store'],
  publishing: ['authentication', 'subscribing', 'store'],
  delivering: ['authentication', 'metrics', 'subscribing', 'publishing', 'store'],
  records: ['authentication', 'delivering', 'subscribing', 'store'],
  flow: ['authentication', 'metrics', 'delivering', 'subscribing', 'publishing', 'store'],
  maintenance: ['authentication', 'metrics', 'delivering', 'subscribing', 'publishing', 'flow', 'store'],
  moving: ['metrics', 'subscribing', 'flow', 'maintenance', 'store'],
  openapi: ['subscribing'],
  http: ['authentication', 'records'],
  console: [
    'http',
    'authentication',
    'metrics',
    'subscribing',
    'publishing',
    'delivering',
    'flow',
    'records',
    'store',
  ],
};

const layers = Object.keys(folders);
for (const [name, allowed] of Object.entries(folders)) {
  const upward = allowed.filter((each) => layers.indexOf(each) > layers.indexOf(name));
  if (upward.length > 0)
    throw new Error(`src/${name}/ would import ${upward}, which is not above it in the table of folders`);
}

/** What the other folders of the tree may import, beside themselves. */
const trees = {
  src: [],
  packages: [],
  harness: ['src'],
  faults: ['src', 'harness', 'packages'],
  fuzz: ['src', 'harness'],
  bench: ['src', 'harness', 'packages'],
  test: ['src', 'harness', 'packages', 'faults', 'fuzz', 'bench'],
};

/** @param {string} name @param {string} comment @param {string | object} from @param {object} to */
const forbid = (name, comment, from, to) => ({
  name,
  comment,
  severity: 'error',
  from: typeof from === 'string' ? { path: from } : from,
  to,
});

const folder = ([name, allowed]) =>
  forbid(
    `folder-${name}`,
    `src/${name}/ imports only ${[name, ...allowed].join(', ')} and the leaves`,
    `^src/${name}/`,
    { path: '^src/', pathNot: `^src/(${[name, ...allowed].join('|')})/|${leaves}` },
  );

const tree = ([name, allowed]) =>
  forbid(`tree-${name}`, `${name}/ imports only ${[name, ...allowed].join(', ')}`, `^${name}/`, {
    path: `^(${Object.keys(trees).join('|')})/`,
    pathNot: `^(${[name, ...allowed].join('|')})/`,
  });

/** What each package may import of the others, which it then names in its package.json. */
const packages = {
  client: [],
  receiver: [],
  cli: ['client', 'receiver'],
};

const ofPackages = ([name, allowed]) =>
  forbid(
    `package-${name}`,
    `packages/${name}/ imports only ${[name, ...allowed].join(', ')}`,
    `^packages/${name}/`,
    {
      path: '^packages/',
      pathNot: `^packages/(${[name, ...allowed].join('|')})/`,
    },
  );

/** A package that one place of src/ only may import. */
const confine = (packages, where) =>
  forbid(
    `only-there-${packages.replaceAll(/\W+/g, '-')}`,
    `${packages} stays inside ${where}`,
    { path: '^src/', pathNot: where },
    { path: `(^|/)node_modules/(${packages})(/|$)|^(${packages})$` },
  );

module.exports = {
  forbidden: [
    forbid('no-circular', 'what imports itself cannot be read in order', {}, { circular: true }),
    forbid('resolvable', 'an import that leads nowhere', {}, { couldNotResolve: true }),
    forbid(
      'listed',
      'a package that package.json does not list',
      { path: '^src/' },
      {
        dependencyTypes: ['npm-no-pkg', 'npm-unknown', 'npm-dev'],
        dependencyTypesNot: ['type-only'],
      },
    ),
    forbid('leaves', 'a leaf imports other leaves at most', leaves, { path: '^src/', pathNot: leaves }),
    forbid('entries', 'only entries import entries', { path: '^src/', pathNot: entries }, { path: entries }),
    ...Object.entries(folders).map(folder),
    ...['delayed', 'joins', 'triggers'].map((part) =>
      forbid(
        `flow-${part}`,
        'delayed events, joins and triggers know nothing of each other',
        `^src/flow/${part}/`,
        {
          path: '^src/flow/',
          pathNot: `^src/flow/${part}/`,
        },
      ),
    ),
    ...Object.entries(trees).map(tree),
    ...Object.entries(packages).map(ofPackages),
    forbid('packages-depend-on-node-alone', 'users install a package without any other', '^packages/', {
      pathNot: '^packages/',
      dependencyTypesNot: ['local', 'core', 'type-only'],
    }),
    confine('ioredis', '^src/store/'),
    confine('undici', '^src/delivering/sending/'),
    confine('express', '^src/http/'),
    confine('passport-http', '^src/authentication/'),
    confine('croner', '^src/flow/'),
    forbid(
      'node-http',
      'src/node_http.ts says what an import of node:http costs',
      { path: '^src/' },
      {
        path: '^(node:)?http$',
        dependencyTypesNot: ['type-only'],
      },
    ),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // Installed on their own, when they are wanted; and what `npm pack` has compiled.
    exclude: { path: '^bench/rivals/|^packages/[^/]+/dist/' },
    // TypeScript 7 has no JavaScript API that dependency-cruiser can use: without swc it would see no .ts file at all.
    parser: 'swc',
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['routemaster-source', 'import', 'require', 'node', 'default', 'types'],
    },
  },
};
