// The layers of the bus: entries → api | runtime → jobs → services → models → redis, and leaves that import nothing of
// ours. A layer may be skipped on the way down, save that only entries (which wire) and models speak to redis/; the
// layers between may name its types, to hand a Store on.

const leaves = '^src/(certificates|clock|ids|log|errors|environment|config)[.]ts$|^src/config/';
const entries = '^src/(web|worker|serve)[.]ts$|^src/local/';

/** @param {string} name @param {string} comment @param {string | object} from @param {object} to */
const forbid = (name, comment, from, to) => ({
  name,
  comment,
  severity: 'error',
  from: typeof from === 'string' ? { path: from } : from,
  to,
});

/** What files of `layer` may import of our own code: themselves, the leaves, and `allowed` folders. */
const layer = (name, allowed) =>
  forbid(
    `layer-${name}`,
    `src/${name}/ imports only ${[name, ...allowed].join(', ')} and the leaves`,
    `^src/${name}/`,
    { path: '^(src|bench|test|faults|fuzz)/', pathNot: `^src/(${[name, ...allowed].join('|')})/|${leaves}` },
  );

/** A package that one place only may import. */
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
    forbid('leaves', 'a leaf imports other leaves at most', leaves, {
      path: '^(src|bench|test|faults|fuzz)/',
      pathNot: leaves,
    }),
    layer('redis', []),
    layer('models', ['redis']),
    layer('services', ['models', 'redis']),
    layer('jobs', ['services', 'models', 'redis']),
    layer('runtime', ['jobs', 'services', 'models', 'redis']),
    layer('api', ['services', 'models', 'redis']),
    forbid(
      'redis-by-models',
      'only models and entries use redis/; others name its types',
      // A worker thread's own entry wires as the process's entries do.
      { path: '^src/(services|jobs|runtime|api)/', pathNot: '_thread[.]ts$' },
      {
        path: '^src/redis/',
        dependencyTypesNot: ['type-only'],
      },
    ),
    forbid(
      'entries',
      'nobody imports an entry, nor the local launcher',
      { path: '^src/', pathNot: entries },
      {
        path: entries,
      },
    ),
    forbid('no-tests', 'src/ knows nothing of tests, benchmarks and the fault lab', '^src/', {
      path: '^(test|bench|faults|fuzz)/',
    }),
    confine('ioredis', '^src/redis/'),
    confine('undici', '^src/services/deliver'),
    confine('express|passport|passport-http', '^src/api/'),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    // TypeScript 7 has no JavaScript API that dependency-cruiser can use: without swc it would see no .ts file at all.
    parser: 'swc',
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
