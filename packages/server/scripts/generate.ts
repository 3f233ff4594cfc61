// Writes what is made of the .proto files: the types of the protocols (see protocol-types.ts).
import { rm } from 'node:fs/promises';
import { generateProtocolTypes, TYPES_FOLDER } from './protocol-types.ts';

// What is no longer in them goes, too.
await rm(TYPES_FOLDER, { recursive: true, force: true });
await generateProtocolTypes(TYPES_FOLDER);
