// Generates the types of the protocols from the .proto files (see protocol-types.ts).
import { rm } from 'node:fs/promises';
import { generateProtocolTypes, TYPES_FOLDER } from './protocol-types.ts';

// Removes outdated files as well.
await rm(TYPES_FOLDER, { recursive: true, force: true });
await generateProtocolTypes(TYPES_FOLDER);
