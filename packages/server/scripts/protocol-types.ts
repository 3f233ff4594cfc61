import { execFile } from 'node:child_process';
import { basename, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { PROTO_FILES, PROTO_FOLDER } from '../src/upstreams/grpc/channels.ts';

/** The folder that {@link generateProtocolTypes} is committed in. */
export const TYPES_FOLDER = fileURLToPath(new URL('../src/upstreams/grpc/generated', import.meta.url));

/** The same options as `loadProtocols`, with output that Node.js can run unchanged. */
const FLAGS = [
  ...['--keepCase', '--longs=Number', '--enums=String', '--defaults', '--includeComments'],
  ...['--grpcLib=@grpc/grpc-js', '--importFileExtension=.ts'],
];

/**
 * Writes the types of the five protocols into a folder, generated from the `.proto` files by the generator of
 * `@grpc/proto-loader`. Rejects with its error message.
 */
export async function generateProtocolTypes(folder: string): Promise<void> {
  const generator = fileURLToPath(import.meta.resolve('@grpc/proto-loader/build/bin/proto-loader-gen-types.js'));
  const files = ['--includeDirs', basename(PROTO_FOLDER), '--outDir', folder, ...PROTO_FILES];
  // Generated comments contain paths relative to the working directory.
  await promisify(execFile)(process.execPath, [generator, ...FLAGS, ...files], { cwd: dirname(PROTO_FOLDER) });
}
