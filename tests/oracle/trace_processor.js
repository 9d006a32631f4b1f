// trace_processor.js - run SQL in Perfetto's trace processor: node trace_processor.js FOLDER TRACE SQL...
// FOLDER has Perfetto's engine_bundle.js and trace_processor*.wasm. Prints a line of JSON, an array of rows, for each query.
const fs = require("fs"), path = require("path"), vm = require("vm");
const [folder, trace, ...queries] = process.argv.slice(2);

function fail(text) {
	console.error(text);
	process.exit(1);
}
process.on("uncaughtException", e => fail(e && e.stack || e));
process.on("unhandledRejection", e => fail(e && e.stack || e));
setTimeout(() => fail("the trace processor does not answer"), 60000);

// ---- protocol buffers: TraceProcessorRpc and QueryResult of Perfetto's trace_processor.proto

function varint(n) {
	const bytes = [];
	for (; n > 127; n = Math.floor(n / 128))
		bytes.push(n & 127 | 128);
	return Buffer.from([...bytes, n]);
}
const bytesField = (number, body) => Buffer.concat([varint(number << 3 | 2), varint(body.length), body]);
const numberField = (number, n) => Buffer.concat([varint(number << 3), varint(n)]);

function* fields(buffer) {
	let at = 0;
	const number = () => {
		let n = 0, unit = 1, c;
		do {
			c = buffer[at++];
			n += (c & 127) * unit;
			unit *= 128;
		} while (c > 127);
		return n;
	};
	while (at < buffer.length) {
		const key = number(), kind = key & 7;
		if (kind === 0)
			yield [key >> 3, number()];
		else if (kind === 1)
			yield [key >> 3, buffer.readDoubleLE((at += 8) - 8)];
		else if (kind === 2) {
			const size = number();
			yield [key >> 3, buffer.subarray(at, at += size)];
		} else
			yield [key >> 3, buffer.readUInt32LE((at += 4) - 4)];
	}
}

// Numbers of a batch of cells; none here is negative or above 2^53.
function numbers(buffer) {
	const all = [];
	let n = 0, unit = 1;
	for (const c of buffer) {
		n += (c & 127) * unit;
		unit *= 128;
		if (c < 128) {
			all.push(n);
			n = 0;
			unit = 1;
		}
	}
	return all;
}

// ---- the engine, a program for a browser's worker

const read = name => fs.readFileSync(path.join(folder, path.basename(String(name))));
class Request {
	open(method, name) { this.name = name; }
	send() {
		const bytes = read(this.name);
		this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
		this.status = 200;
	}
}
const worker = {
	postMessage() {}, importScripts() {}, WorkerGlobalScope: function () {}, XMLHttpRequest: Request,
	console: { log() {}, info() {}, warn() {}, error: console.error }, location: { href: "file:///engine/engine_bundle.js" },
	fetch: async name => new Response(read(name), { headers: { "Content-Type": "application/wasm" } }),
	TextDecoder, TextEncoder, performance, setTimeout, clearTimeout, URL,
};
worker.self = worker;
vm.createContext(worker);
vm.runInContext(read("engine_bundle.js").toString(), worker);

// ---- queries

const APPEND = 1, FINISH = 2, QUERY = 3;
let sequence = 1, pending = Buffer.alloc(0), answered = 0, columns = [], rows = [];

function takeBatch(batch) {
	let kinds = [], integers = [], reals = [], texts = [], last = false;
	for (const [field, value] of fields(batch)) {
		if (field === 1) kinds = [...value];
		if (field === 2) integers = numbers(value);
		if (field === 3) for (let i = 0; i < value.length; i += 8) reals.push(value.readDoubleLE(i));
		if (field === 5) texts = value.toString().split("\0");
		if (field === 6) last = !!value;
	}
	const cells = kinds.map(k => [undefined, null, integers, reals, texts][k]).map(from => from && from.shift());
	for (let i = 0; i < cells.length; i += columns.length)
		rows.push(cells.slice(i, i + columns.length));
	return last;
}

function takeResult(result) {
	let last = false;
	for (const [field, value] of fields(result)) {
		if (field === 1) columns.push(value.toString());
		if (field === 2) fail(value.toString());
		if (field === 3) last = takeBatch(value);
	}
	if (!last)
		return;
	console.log(JSON.stringify(rows));
	columns = [];
	rows = [];
	if (++answered === queries.length)
		process.exit(0);
}

function take(bytes) {
	pending = Buffer.concat([pending, Buffer.from(bytes)]);
	for (const [, message] of fields(pending))
		for (const [field, value] of fields(message)) {
			if (field === 5) fail(value.toString());
			if (field === 201) for (const [inner, text] of fields(value)) if (inner === 2) fail(text.toString());
			if (field === 203) takeResult(value);
		}
	pending = Buffer.alloc(0);
}

const port = { postMessage: take, onmessage: null };
worker.onmessage({ data: port });

function send(type, ...rest) {
	const message = bytesField(1, Buffer.concat([numberField(1, sequence++), numberField(2, type), ...rest]));
	const bytes = new (vm.runInContext("Uint8Array", worker))(message.length);
	bytes.set(message);
	port.onmessage({ data: bytes });
}
setTimeout(() => {
	send(APPEND, bytesField(101, fs.readFileSync(trace)));
	send(FINISH);
	for (const sql of queries)
		send(QUERY, bytesField(103, bytesField(1, Buffer.from(sql))));
}, 200);
