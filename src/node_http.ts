/**
 * Node's http module. An `import` of `node:http` would read all its exports, and so load Node's `fetch`. The bus does
 * not use `fetch`, and loading it takes a tenth of the CPU time that a web process needs to start.
 */
export const http = process.getBuiltinModule('node:http');
