//! The command line, as far as a stand-in cares.

/// What to do.
pub enum Command {
    /// Serve with these.
    Serve(Args),
    /// Everything is printed already; end with this code.
    Print(i32),
}

/// The options that change what is answered.
pub struct Args {
    /// Path of the model.
    pub model: String,
    /// Name that the API shows.
    pub alias: String,
    /// Address, or a path that ends in `.sock`.
    pub host: String,
    /// 0 lets the kernel choose.
    pub port: u16,
    /// Tokens of context, all slots together.
    pub context: usize,
    /// Slots.
    pub slots: usize,
    /// Log lines as JSON on stdout.
    pub jsonl: bool,
}

impl Args {
    /// One log line, where and as the real one writes it.
    pub fn log(&self, message: &str) {
        if self.jsonl {
            println!("{}", serde_json::json!({"type": "log", "level": "info", "msg": format!("{message}\n")}));
        } else {
            eprintln!("0.00.000.000 I {message}");
        }
    }
}

/// The options that `--help` lists, with what follows each.
const OPTIONS: &[&str] = &[
    "-m,    --model FNAME",
    "-a,    --alias STRING",
    "--host HOST",
    "--port PORT",
    "-c,    --ctx-size N",
    "-np,   --parallel N",
    "-kvu,  --kv-unified",
    "-no-kvu, --no-kv-unified",
    "-t,    --threads N",
    "-tb,   --threads-batch N",
    "--threads-http N",
    "-b,    --batch-size N",
    "-ub,   --ubatch-size N",
    "-ngl,  --gpu-layers, --n-gpu-layers N",
    "-fit,  --fit [on|off]",
    "-fa,   --flash-attn [on|off|auto]",
    "-ctk,  --cache-type-k TYPE",
    "-ctv,  --cache-type-v TYPE",
    "-cram, --cache-ram N",
    "--metrics",
    "--slots",
    "--no-slots",
    "--slot-save-path PATH",
    "--jinja",
    "--reasoning-format FORMAT",
    "--embeddings",
    "--pooling TYPE",
    "--no-ui",
    "--no-webui",
    "--sse-ping-interval N",
    "--offline",
    "--warmup",
    "--no-warmup",
    "--api-key KEY",
    "--api-key-file FNAME",
    "--log-jsonl",
    "--log-colors [on|off|auto]",
    "-lv,   --verbosity N",
    "--version",
    "--list-devices",
];

/// Read the command line; what it does not know it skips.
pub fn parse(mut words: impl Iterator<Item = String>) -> Command {
    let mut args = Args {
        model: String::new(),
        alias: String::new(),
        host: "127.0.0.1".to_owned(),
        port: 8080,
        context: 4096,
        slots: 4,
        jsonl: false,
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_default();
        match word.as_str() {
            "--version" => {
                eprintln!("version: 0.6.0-mock (build 11434, commit abc1234)\nbuilt with the load bench");
                return Command::Print(0);
            }
            "-h" | "--help" | "--usage" => {
                for option in OPTIONS {
                    println!("{option:<40}as llama-server has it");
                }
                return Command::Print(0);
            }
            "--list-devices" => {
                println!("Available devices:\n  (none)");
                return Command::Print(0);
            }
            "-m" | "--model" => args.model = value(),
            "-a" | "--alias" => args.alias = value(),
            "--host" => args.host = value(),
            "--port" => args.port = value().parse().unwrap_or(args.port),
            "-c" | "--ctx-size" => args.context = value().parse().unwrap_or(args.context),
            "-np" | "--parallel" => args.slots = value().parse().ok().filter(|&slots| slots > 0).unwrap_or(args.slots),
            "--log-jsonl" => args.jsonl = true,
            _ => {}
        }
    }
    if args.alias.is_empty() {
        args.alias.clone_from(&args.model);
    }
    Command::Serve(args)
}
