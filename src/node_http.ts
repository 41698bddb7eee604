/**
 * Node's http module. An `import` of `node:http` would read all exports of the module. Reading one of them,
 * `WebSocket`, loads Node's `fetch`. The bus does not use `fetch`, and loading it takes a tenth of the CPU time of a
 * web process's start.
 */
export const http = process.getBuiltinModule('node:http');
