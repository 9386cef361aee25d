"""Word lists for stories and tasks."""

GIRLS = """Mia Anna Lily Emma Zoe Clara Ruby Nora Ella Maya Lucy Rosa Ida Alice Julia Sofia Hannah Eva
Nina Olive Ivy Grace Daisy Molly Tess Freya Lena Amira Leila Priya Yuki Mei Sara Elsa Greta Wanda Flora
Hazel Poppy Willa June Marta Petra Dora Tilda Edith Signe Maren Aisha Noor Carmen Lucia Paula Irene Vera
Bella Cora Stella Thea Winnie""".split()

BOYS = """Tom Ben Leo Max Sam Finn Oscar Jack Noah Hugo Otto Emil Felix Theo Milo Adam Luca Jonas Peter
David Samir Omar Ravi Kenji Chen Ivan Pablo Diego Marco Nico Anton Karl Erik Lars Sven Tim Joel Simon Paul
Henry George Arthur Walter Ned Toby Rufus Jasper Basil Casper Edgar Ahmed Yusuf Tariq Mateo Bruno Andre
Victor Louis Owen Dylan""".split()

SURNAMES = """Baker Miller Stone Wood Rivers Hill Green Brown White Black Fisher Carter Cooper Mason Turner
Walker Hunter Archer Taylor Smith Jones Clark Lewis Young King Wright Scott Adams Nelson Parker Evans
Collins Stewart Morris Cook Bell Ward Gray Brooks Long Ross Foster Perry Powell Hughes Palmer""".split()

# Animals that act in stories: kind, home, favourite food.
ANIMALS = [
    ("fox", "den", "berries"),
    ("rabbit", "burrow", "carrots"),
    ("mouse", "hole", "cheese"),
    ("bear", "cave", "honey"),
    ("hedgehog", "nest of leaves", "apples"),
    ("squirrel", "hollow tree", "nuts"),
    ("badger", "den", "mushrooms"),
    ("otter", "riverbank", "fish"),
    ("duck", "nest", "seeds"),
    ("cat", "basket", "cream"),
    ("dog", "kennel", "bones"),
    ("donkey", "stable", "hay"),
    ("goat", "shed", "clover"),
    ("pony", "stable", "oats"),
    ("lamb", "meadow", "grass"),
    ("pig", "sty", "turnips"),
    ("frog", "pond", "flies"),
    ("turtle", "pond", "lettuce"),
    ("mole", "tunnel", "roots"),
    ("owl", "old oak", "seeds"),
    ("crow", "nest", "corn"),
    ("sparrow", "nest", "crumbs"),
    ("wolf", "cave", "stew"),
    ("deer", "thicket", "leaves"),
    ("beaver", "lodge", "bark"),
    ("penguin", "nest of stones", "fish"),
    ("elephant", "valley", "bananas"),
    ("monkey", "tall tree", "bananas"),
    ("lion", "cave", "stew"),
    ("tiger", "cave", "fish"),
    ("kangaroo", "hut", "leaves"),
    ("dragon", "cave", "hot soup"),
]

TRAITS = """kind curious brave shy clever cheerful gentle stubborn careful lively quiet patient honest proud
playful thoughtful impatient generous restless dreamy""".split()

# Where stories happen: the phrase, and how the story speaks of it later.
PLACES = [
    ("in a small village by the sea", "the village"),
    ("in a quiet valley between two hills", "the valley"),
    ("at the edge of a deep forest", "the forest"),
    ("on a farm under a green hill", "the farm"),
    ("in a little town with crooked streets", "the town"),
    ("beside a wide, slow river", "the river"),
    ("near a lake that shone like glass", "the lake"),
    ("on an island with white cliffs", "the island"),
    ("high up in the mountains", "the mountains"),
    ("in a meadow full of wild flowers", "the meadow"),
    ("in a busy harbour where ships came and went", "the harbour"),
    ("at the foot of an old castle", "the castle"),
    ("in a garden behind a tall stone wall", "the garden"),
    ("in a snowy land far in the north", "the snowy land"),
    ("in a village where three roads met", "the village"),
    ("near a mill with a big wooden wheel", "the mill"),
    ("in a forest where the trees whispered at night", "the forest"),
    ("on the sunny side of a mountain", "the mountain"),
    ("in a town famous for its bells", "the town"),
    ("by a pond where lilies grew", "the pond"),
]

# Helpers without a name: adults and wise animals.
ELDERS = """owl|tortoise|heron|goose|farmer|baker|miller|gardener|sailor|shepherd|fisherman|clockmaker|teacher
potter|carpenter|woodcutter|ferryman|beekeeper|toymaker|librarian|raven|weaver""".replace("\n", "|").split("|")

ADJECTIVES = """red blue green yellow white black silver golden purple striped orange grey""".split()
TREASURES = """scarf kite hat ball button ribbon umbrella lantern mitten whistle flute key ring bell cup toy boat
drum blanket pencil marble watch necklace feather basket bag compass locket book spoon coin""".split()

SPOTS = """under the old bridge|behind the mill|in the tall grass|beside the well|under a bush of roses
on top of the haystack|inside a hollow log|between two big stones|on the lowest branch of an oak
by the garden gate|at the bottom of the stairs|under a pile of leaves|behind the barn
in the reeds near the water|on the path to the market|under the kitchen table|beside the stone wall
next to the pump in the square|in the corner of the shed|under the apple tree""".replace("\n", "|").split("|")

# Skills to learn: to do it, doing it, where, how it fails, the advice, how it succeeds.
SKILLS = [
    ("swim", "swimming", "at the pond", "sank like a stone", "Kick slowly and keep your chin up", "crossed the whole pond without stopping"),
    ("whistle", "whistling", "on the hill", "blew nothing but air", "Make your lips small and blow softly", "whistled so well that the birds answered"),
    ("skate", "skating", "on the frozen lake", "slipped and sat down hard", "Bend your knees and look ahead", "glided in a great circle over the ice"),
    ("juggle", "juggling", "in the yard", "dropped every ball", "Start with two and watch the top", "kept three apples in the air"),
    ("climb", "climbing", "at the old oak", "slid down with scratched knees", "Test each branch before you trust it", "sat at the very top and saw the whole land"),
    ("ride a bicycle", "riding", "in the lane", "rolled straight into a hedge", "Look where you want to go", "rode all the way to the mill and back"),
    ("bake bread", "baking", "in the warm kitchen", "burned the loaf until it was black", "Wait for the dough, it cannot be hurried", "pulled a golden loaf out of the oven"),
    ("play the flute", "playing", "by the window", "made a sound like an angry goose", "Play one note until it is your friend", "played a tune that made people stop and listen"),
    ("row a boat", "rowing", "on the lake", "went round and round in circles", "Pull with both arms at the same time", "rowed straight to the far shore"),
    ("read", "reading", "under the apple tree", "mixed up all the letters", "Say each sound, then let them join hands", "read a whole page aloud"),
    ("dance", "dancing", "in the barn", "stepped on everyone's toes", "Listen to the drum and forget your feet", "danced until the lamps went out"),
    ("fish", "fishing", "by the river", "caught only an old boot", "Sit still and let the river come to you", "caught a fine silver fish"),
    ("paint", "painting", "in the attic", "spilled blue paint over everything", "Look twice before you touch the brush", "painted a picture of the sea that seemed to move"),
    ("sing", "singing", "behind the school", "squeaked like a rusty gate", "Breathe deep and do not be in a hurry", "sang a song from beginning to end"),
]

FOODS = """apples pears plums nuts cakes buns berries pancakes cookies sandwiches cherries figs dates pies
peaches tarts carrots oranges""".split()

FLOWERS = "rose sunflower tulip pear lemon cherry apple pumpkin bean plum lily peach".split()

SOUNDS = [
    ("a tapping sound", "a branch that the wind pushed against the window"),
    ("a deep growl", "a fat cat snoring under the stairs"),
    ("a long howl", "the wind blowing over an empty bottle"),
    ("a strange rattle", "a loose shutter on the barn"),
    ("a soft scratching", "a hedgehog eating crumbs by the door"),
    ("a low moan", "the old gate turning on its hinges"),
    ("a quick patter", "rain that dripped into a bucket"),
    ("a heavy thump", "apples falling on the roof"),
    ("a tiny voice crying", "a kitten that had climbed into a box"),
    ("a slow creak", "the weathercock turning on the roof"),
]

BUILDS = [
    ("boat", "planks and an old sheet", "filled with water and sank near the shore", "sailed across the water like a swan"),
    ("kite", "paper and string", "fell on its nose again and again", "climbed so high that it looked like a bird"),
    ("tree house", "boards and rope", "tipped to one side and lost its roof", "stood as firm as the tree itself"),
    ("bridge", "logs and stones", "broke in the middle with a loud crack", "carried even the heaviest cart"),
    ("raft", "logs and rope", "fell apart on the first wave", "floated gently down the stream"),
    ("wagon", "wheels and an old box", "lost a wheel on the first hill", "rolled down the road without a squeak"),
    ("snow house", "blocks of snow", "fell in with a soft thud", "kept out even the coldest wind"),
    ("swing", "a board and two ropes", "broke and dropped them into the grass", "flew up to the leaves and back"),
    ("bird house", "thin boards and nails", "had a door that was much too small", "was full of singing by the spring"),
    ("clock", "springs and little wheels", "ran backwards and rang at midnight", "never lost a single minute"),
]

WEATHERS = "sunny windy rainy foggy snowy cloudy warm cold bright grey frosty stormy".split()
SEASONS = "spring summer autumn winter".split()

GIFTS = """a warm pair of socks|a pot of honey|a little wooden horse|a paper crown|a jar of jam|a song
a painted stone|a book with pictures|a string of shells|a bunch of wild flowers|a new red ball
a pillow filled with feathers|a map of the stars|a box of chalk""".replace("\n", "|").split("|")

# For lists.
CATEGORIES = {
    "fruit": "apple pear plum banana cherry orange lemon grape peach mango fig melon".split(),
    "vegetable": "carrot potato onion cabbage pea bean turnip spinach leek pumpkin beet radish".split(),
    "animal": "dog cat horse cow sheep pig lion tiger bear wolf fox rabbit elephant monkey".split(),
    "bird": "crow sparrow owl duck goose swan eagle robin heron parrot gull pigeon".split(),
    "colour": "red blue green yellow orange purple black white brown pink grey".split(),
    "tree": "oak pine birch maple willow ash elm fir beech cedar".split(),
    "flower": "rose tulip lily daisy sunflower violet poppy iris orchid daffodil".split(),
    "tool": "hammer saw screwdriver drill spade rake axe chisel wrench pliers".split(),
    "drink": "water milk tea coffee juice lemonade cocoa soda".split(),
    "country": "France Spain Italy Germany Japan China India Brazil Canada Egypt Kenya Peru Greece Norway".split(),
    "city": "Paris Rome Madrid Berlin London Tokyo Cairo Vienna Oslo Lima Dublin Athens".split(),
    "sport": "football tennis swimming running hockey rowing cycling skiing chess golf".split(),
    "instrument": "piano violin flute drum guitar trumpet harp cello clarinet organ".split(),
    "shape": "circle square triangle rectangle star oval hexagon pentagon".split(),
    "insect": "bee ant fly beetle butterfly moth wasp cricket mosquito ladybird".split(),
    "planet": "Mercury Venus Earth Mars Jupiter Saturn Uranus Neptune".split(),
    "month": "January February March April May June July August September October".split(),
    "metal": "iron gold silver copper tin lead zinc nickel".split(),
    "season": SEASONS,
    "girl's name": GIRLS,
    "boy's name": BOYS,
    "job": "baker farmer teacher doctor pilot nurse painter sailor gardener carpenter cook".split(),
}
PLURALS = {
    "country": "countries",
    "city": "cities",
    "girl's name": "girls' names",
    "boy's name": "boys' names",
}

OBJECTS = """table chair lamp clock mirror carpet window door bed desk shelf bottle plate knife fork bowl box
bicycle car train ship hammer radio camera phone tent rope bucket ladder candle brush pillow towel coat shoe
glove jacket shirt sock backpack violin guitar piano puzzle doll robot telescope magnet battery""".split()

CITIES = """Paris Rome Madrid Berlin London Tokyo Cairo Vienna Oslo Lima Dublin Athens Lisbon Warsaw Prague
Boston Chicago Toronto Sydney Delhi Nairobi Seoul Milan Lyon Geneva Hamburg Bergen Porto Seville Kyoto""".split()

PETS = "dog cat rabbit hamster parrot turtle pony goldfish".split()
PET_NAMES = "Rex Luna Bruno Coco Milo Bella Rocky Daisy Oscar Ginger Pepper Shadow Buddy Misty Lucky Snowy".split()
HOBBIES = """reading painting swimming chess football cooking singing dancing fishing gardening running cycling
drawing hiking knitting sailing""".split()

# Words for spelling, repeating, sorting and counting.
COMMON = """about after again air all along always animal answer apple around ask autumn away baby back ball bank
basket beach beautiful because before begin behind believe below beside between bird boat body book bottle
bread bridge bring brother build busy butter button call candle carry castle chair change child church circle
city class clean clear clock cloud coat cold colour come corner country course cross dance dark day deep dinner
doctor door down draw dream dress drink drive early earth east easy eight empty engine enough evening every
example face fall family farm fast father feather field fight fill find finger finish fire first fish floor
flower follow food forest forget fork four free fresh friend front fruit full funny game garden gate gentle
gift girl give glass gold good grass great green ground group grow hair half hammer hand happy hard head hear
heart heavy help high hill hold hole home honey hope horse hour house hundred hungry ice idea important inside
island jacket journey juice jump keep kettle key kind king kitchen kitten knee knife knock know ladder lake lamp
language large last late laugh leaf learn leave left letter light line lion listen little long look lose loud
love lucky lunch machine make market matter meadow meal mean measure meet middle milk mind minute mirror money
month moon morning mother mountain mouse mouth move music name narrow nature near neck needle never new night
noise north nose nothing number ocean often open orange order other outside over page paint paper parent park
part party pass path pencil people picture piece place plant plate play please pocket point pond poor present
pretty problem promise puddle pull push quarter queen question quick quiet rabbit rain reach read ready reason
remember rest rice rich right ring river road rock roof room root rope round rule run safe salt sand save
school sea season second secret see seed seven shade shadow shape share sharp sheep shelf shell shine ship shoe
shop shore short shoulder show sick side silent silver simple sister sky sleep slow small smell smile smoke snow
soap soft song soon sound soup south space speak spell spend spoon spring square stair stand star start station
stay step stick still stone stop store storm story straight strange stream street strong student sudden sugar
summer sun supper surprise sweet table tail take talk tall teach team tell thank thick thing think thousand
thread three thunder ticket tiger time tiny together tomorrow tongue tooth touch tower town toy train travel
tree triangle trip trouble true trust try turn twelve uncle under until useful valley village visit voice wait
walk wall want warm wash watch water wave weather week welcome west wheel while whisper white whole wide wind
window winter wise wish wonder wood word work world worry write yard year yellow yesterday young""".split()

NUMBERS = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen twenty""".split()
