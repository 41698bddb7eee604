import { type ChildProcess, spawn } from 'node:child_process';

// A shell script that waits for a line. This process writes the line once process `$2` was stopped properly.
// If this process dies before, the pipe ends, `read` fails, and the script stops process `$2`. This works on
// Linux and macOS.
const script = 'read -r done && exit 0; kill -s "$1" "$2" 2>/dev/null; [ -z "$3" ] || rm -rf -- "$3"';

/**
 * Stops process `pid` with `signal` if this process dies without having stopped it (SIGKILL, a crash). Then
 * removes `temporaryDir`, if given. Call the returned function when process `pid` has ended.
 */
export function keep(pid: number, signal: 'TERM' | 'KILL', temporaryDir = ''): () => void {
  const keeper: ChildProcess = spawn('sh', ['-c', script, 'keeper', signal, String(pid), temporaryDir], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  });
  keeper.on('error', () => {}); // no `sh`: everything works, without a keeper
  keeper.stdin?.on('error', () => {});
  keeper.unref();
  (keeper.stdin as unknown as { unref?: () => void } | null)?.unref?.();
  return () => keeper.stdin?.end('done\n');
}
